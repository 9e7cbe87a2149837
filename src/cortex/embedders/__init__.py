"""Text -> vectors: what every embedder can do, and the one door through which one is opened.

Knows nothing of chunks, stores or searching. An embedder is optional: without one, search answers by words. Road not taken: a class hierarchy;
embedders share no code, only this shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from cortex.types import Stamp

if TYPE_CHECKING:  # without an embedder nobody needs numpy, and loading it is a tenth of a server's start
    import numpy as np
    from numpy.typing import NDArray

EmbedMode = Literal["query", "passage"]


class Embedder(Protocol):
    """Turns texts into vectors of length 1; those of queries and of passages are compared by cosine."""

    name: str
    stamp: Stamp
    dimensions: int

    def embed(self, texts: Sequence[str], mode: EmbedMode) -> NDArray[np.float32]:
        """One row of `dimensions` numbers for each text, in order."""
        ...

    def close(self) -> None:
        """Let go of memory and connections."""
        ...


def open_embedder(provider: str) -> Embedder | None:
    """The provider's embedder; None where there is none to be had, and search goes on by words and says so.

    `local`, `openai` and `ollama` have no embedder yet: the first needs a model that is part of the distribution, and the other two send text
    to another process, which no release does before it can say so. `hashing` is deterministic and knows no language: it stands in for a model
    in tests, and no setting selects it.
    """
    if provider == "hashing":
        from cortex.embedders.hashing import HashingEmbedder

        return HashingEmbedder()
    return None
