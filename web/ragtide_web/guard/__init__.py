"""What keeps requests out: tokens, logins, origins and limits; and the audit log of what users did."""
