"""The options of a role that choose its labeler."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ragtide_runtime.settings import Settings


@dataclass(frozen=True, slots=True)
class LabelerOptions:
    """The options of a role that choose the labeler, and a model for the labeler `model`."""

    labeler: Annotated[
        str | None, typer.Option(help="Name of the labeler, such as local, judge or model [RAGTIDE_LABELER].")
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME_OR_FOLDER",
            help="For --labeler model: owner/name of an ONNX model on the Hugging Face Hub, or a folder. Its license "
            "and size are shown before a download, its rate and slopes before the start [RAGTIDE_MODELS_SUPPORT].",
        ),
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Download the model without asking.")] = False

    def settings(self, load: "Callable[..., Settings]") -> "Settings":
        """Return settings with the labeler, and with the model once it is downloaded and measured.

        Args:
            load: returns the settings; what it is given overrides environment and file.

        Raises:
            ConfigurationError: the model cannot be used, or nobody agreed to its download.
            RedisUnavailable: its slopes cannot be stored.
        """
        settings = load(labeler=self.labeler)
        if self.model is not None and "model" not in settings.labelers:
            raise typer.BadParameter("it goes with --labeler model: give both", param_hint="--model")
        place = self.model or (settings.models.support if self.labeler == "model" else "")
        if not place:
            return settings
        from .model_setup import chosen_model, measure_model  # noqa: PLC0415 - they import labelers

        support, support_file = chosen_model(settings, place, may_download=self.yes)
        settings = load(labeler=self.labeler, models={"support": support, "support_file": support_file})
        measure_model(settings)
        return settings
