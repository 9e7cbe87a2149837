"""Frozen Settings object: all values, their origins, and warnings about the files.

Built by `load.py`; a change makes a new object. Knows no file. Values are kept twice, as stated and
as limited by each other (`settle`), so that a runtime change starts from the stated values and not
from capped ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pydantic import Field

from cortex.base.errors import ConfigError
from cortex.base.settings.groups import Groups, SettingsGroup
from cortex.base.settings.merge import Layers, SettingEntry, SettingOrigin, apply_limits
from cortex.base.settings.registry import KEYS, FamilyKey, Key, find_key, unknown

FileStates = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that settings were loaded from, to load them again.

    Settings are compared by their values, not by this.
    """

    root: Path | None = field(compare=False)
    environment: Mapping[str, str] = field(compare=False, repr=False)
    flags: Mapping[str, object] = field(compare=False, repr=False)
    user_home: Path = field(compare=False)
    shared: bool = field(compare=False)
    files: FileStates = field(compare=False)  # as they were before they were read
    # Entries from variables that are ignored.
    apart: tuple[SettingEntry, ...] = field(compare=False, default=())


# End of a warning about a file that is ignored as a whole.
IGNORED = "(file ignored)"


class Settings(Groups):
    """Every setting of one workspace, or of none (`root` is None)."""

    home: Path = Path()
    root: Path | None = None
    # Keys of other families, as they are written.
    families: Mapping[str, object] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, str] = Field(default_factory=dict, repr=False)
    stated: Mapping[str, object] = Field(default_factory=dict, repr=False)
    # The values without any project's files.
    own: Layers = Field(default_factory=Layers, repr=False)
    inputs: Inputs | None = Field(None, repr=False)

    def origin(self, name: str) -> str:
        """Return the origin of a key's value.

        It is "default", a file, "environment NAME", "flag --name" or "runtime".

        Raises: ConfigError (CONFIG_INVALID), if there is no such key.
        """
        return self.origins.get(known_key(name).name, "default")

    def value(self, name: str) -> object:
        """Return the value of a key by its name, in any spelling.

        None for another family's key that isn't set.

        Raises: ConfigError (CONFIG_INVALID), if there is no such key.
        """
        key = known_key(name)
        if isinstance(key, FamilyKey):
            return self.families.get(key.name)
        value: object = self
        for attribute in key.attribute:
            value = getattr(value, attribute)
        return value

    def warning_about(self, name: str) -> str:
        """Return the reason why a file's value of a key is ignored, "" where it isn't."""
        return next((warning for warning in self.warnings if f": {name}: " in warning), "")

    def ignored_files(self) -> tuple[str, ...]:
        """Return the warnings about settings files that can't be read."""
        return tuple(warning for warning in self.warnings if warning.endswith(IGNORED))

    def index_values(self) -> dict[str, object]:
        """Return the settings that decide what an index holds, by name, as JSON values."""
        values = ((key.name, self.value(key.name)) for key in KEYS if key.index)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}

    def unheeded(self, now: Settings | None = None) -> tuple[str, ...]:
        """Describe the variables of this client that are ignored, one sentence each.

        `now` are the settings that apply instead; by default these.
        """
        effective = now or self
        texts: list[str] = []
        for entry in self.inputs.apart if self.inputs else ():
            key, effective_value = entry.key, effective.value(entry.key.name)
            if isinstance(key, Key) and (value := key.parse(entry.value)) != effective_value:
                texts.append(
                    f"{entry.origin}: {key.name} is the same for all clients of an index, and "
                    f"{key.show(effective_value)} counts "
                    f"({effective.origin(key.name)}); for {key.show(value)} run "
                    f"`cortex config set {key.name} {key.show(value)}`"
                )
        return tuple(texts)

    def changed(self, changes: Mapping[str, object], origin: str = "runtime") -> Self:
        """Return a copy with `changes`, each limited to what an agent may set.

        Raises: ConfigError (CONFIG_INVALID), if a key is unknown or a value isn't allowed; then
        nothing is changed.
        """
        layers = Layers(
            dict(self.stated), dict(self.origins), dict(self.families), list(self.warnings)
        )
        entries = [SettingEntry(known_key(name), value, origin) for name, value in changes.items()]
        layers.lay(entries, SettingOrigin.RUNTIME, held=self.own, root=self.root)
        return self.build(layers, home=self.home, root=self.root, own=self.own, inputs=self.inputs)

    def check(self, key: Key, value: object, *, project: Path | None) -> object:
        """Validate `value` for the user's own file, or for the files of `project`.

        These settings are the user's. Returns the value as it would apply.

        Raises: ConfigError (CONFIG_INVALID), if it isn't allowed or would be ignored there.
        """
        layers = Layers(dict(self.stated))
        speaker = SettingOrigin.PROJECT if project else SettingOrigin.HOME
        layers.lay(
            [SettingEntry(key, value, "the new value")], speaker, held=self.own, root=project
        )
        if layers.warnings:
            message = layers.warnings[0].removesuffix(" (ignored)")
            raise ConfigError("CONFIG_INVALID", message, context={"key": key.name})
        new = layers.values[key.name]
        settled, warnings = apply_limits(layers.values)
        # Capped by another setting.
        if isinstance(new, int) and settled[key.name] != new:
            reason = next(
                warning for warning in warnings if warning.startswith(f"{key.name}: ")
            ).partition(";")[0]
            message = f"{reason}; the most is {key.show(settled[key.name])}"
            raise ConfigError("CONFIG_INVALID", message, context={"key": key.name})
        return new

    @classmethod
    def build(
        cls,
        layers: Layers,
        *,
        home: Path,
        root: Path | None,
        own: Layers,
        inputs: Inputs | None = None,
    ) -> Self:
        """Build settings from merged layers; `own` are the layers without any project's files."""
        settled, warnings = apply_limits(layers.values)
        return cls.model_construct(
            None,
            **_nest(Groups, settled, ()),
            home=home,
            root=root,
            families=layers.families,
            warnings=tuple(dict.fromkeys((*layers.warnings, *warnings))),
            origins=layers.origins,
            stated=layers.values,
            own=own,
            inputs=inputs,
        )


def known_key(name: str) -> Key | FamilyKey:
    """Return the key that `name` spells.

    Raises: ConfigError (CONFIG_INVALID) with the nearest known key.
    """
    key = find_key(name)
    if key is None:
        raise ConfigError("CONFIG_INVALID", unknown(name), context={"key": name})
    return key


def _nest(
    model: type[SettingsGroup], values: Mapping[str, object], path: tuple[str, ...]
) -> dict[str, object]:
    """Build the fields of a group from checked values, without validating them again."""
    out: dict[str, object] = {}
    for attribute, info in model.model_fields.items():
        here = (*path, attribute)
        if isinstance(info.annotation, type) and issubclass(info.annotation, SettingsGroup):
            out[attribute] = info.annotation.model_construct(
                None, **_nest(info.annotation, values, here)
            )
        else:
            out[attribute] = values[_NAMES[here]]
    return out


_NAMES = {key.attribute: key.name for key in KEYS}
