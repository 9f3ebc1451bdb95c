"""Why a mean changed: traffic or system."""
