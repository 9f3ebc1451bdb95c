"""Kept answers as a file: the rows of a data set, as `ragtide dataset` writes them."""

from collections.abc import Sequence
from urllib.parse import quote

from fastapi.responses import Response

from ragtide_roles.kept.choosing import ChosenSpecimen
from ragtide_roles.kept.rows import json_lines, rows

from ..guard.headers import HEADERS
from ..guard.problems import HttpProblem
from ..guard.viewers import Viewer


def data_set(viewer: Viewer, chosen: Sequence[ChosenSpecimen], name: str = "items") -> Response:
    """Return a file of JSON lines.

    Raises:
        HttpProblem: 403, the viewer sees no texts, and a row is made of texts.
    """
    if not viewer.sees_texts:
        raise HttpProblem(403, "texts are hidden: web.texts of the settings does not let this user see them")
    disposition = f"attachment; filename*=UTF-8''{quote(f'{name[:80]}.jsonl', safe='')}"
    headers = {**HEADERS, "Content-Disposition": disposition}
    return Response(json_lines(rows(chosen)), media_type="application/x-ndjson", headers=headers)
