"""Base of the generated types."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    # A newer engine may send fields that this version does not know. Most types are never used by one program, so each
    # builds its validator at its first use.
    model_config = ConfigDict(extra="allow", defer_build=True, protected_namespaces=())
