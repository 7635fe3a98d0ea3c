"""Node selector and tolerations of Kubeflow's plain fields, copied into the pod template.

Kueue sets both fields when it admits an application, and takes them back when it evicts it. So they stay where they
are, and an annotation of the template names what was copied: a template that is prepared again holds what the fields
hold now.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError

from ..model.base import Frozen
from ..model.names import ANNOTATION_COPIED_FIELDS
from .manifest import Json, ManifestError
from .pod_templates import merge_map


class CopiedFields(Frozen):
    """What the template did not have by itself."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()


def copy_fields(pod: Mapping[str, Any], template: Mapping[str, Any], where: str) -> Json:
    """The template with node selector and tolerations of ``pod``, which is ``spec.driver`` or ``spec.executor``.

    Raises:
        ManifestError: a label has another value in the template, or the annotation is not ours.
    """
    metadata, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    annotations = dict(metadata.get("annotations") or {})
    earlier = _parse(annotations.pop(ANNOTATION_COPIED_FIELDS, "{}"), where)
    selector = {key: value for key, value in (spec.pop("nodeSelector", None) or {}).items()
                if earlier.node_selector.get(key) != value}  # fmt: skip
    tolerations = [one for one in spec.pop("tolerations", None) or [] if one not in earlier.tolerations]
    merged = merge_map(selector, pod.get("nodeSelector") or {}, f"{where}.nodeSelector")
    added = tuple(one for one in pod.get("tolerations") or [] if one not in tolerations)
    copied = CopiedFields(
        node_selector={key: value for key, value in merged.items() if key not in selector}, tolerations=added
    )
    if merged:
        spec["nodeSelector"] = merged
    if tolerations or added:
        spec["tolerations"] = [*tolerations, *added]
    if copied != CopiedFields():
        annotations[ANNOTATION_COPIED_FIELDS] = copied.model_dump_json(by_alias=True, exclude_defaults=True)
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    return {**template, **({"metadata": metadata} if metadata else {}), "spec": spec}


def _parse(text: str, where: str) -> CopiedFields:
    try:
        return CopiedFields.model_validate_json(text)
    except ValidationError as error:
        raise ManifestError(
            f"{where}.template has the annotation {ANNOTATION_COPIED_FIELDS}: {text:.80}, which was not written by "
            "this command: remove it"
        ) from error
