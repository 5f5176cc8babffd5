"""Builds the OpenAPI document from the descriptions of the calls."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from holdfast.control.api.calls import Call, QueryParameter

DESCRIPTIONS = {
    400: "The body is not JSON, or is incomplete",
    401: "The token is missing or unknown",
    403: "The other kind of token is required",
    404: "The object does not exist",
    409: "The present state does not allow the call",
    413: "The body is too long",
    422: "The request is not valid; the error text says why",
    429: "Too many calls",
    503: "Temporarily unavailable; try again",
}


def openapi(calls: Sequence[Call], *, version: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document."""
    from pydantic.json_schema import models_json_schema

    models = sorted({model for call in calls for model in (call.body, call.answer) if model is not None}, key=lambda m: m.__name__)
    _, schemas = models_json_schema([(model, "validation") for model in models], ref_template="#/components/schemas/{model}")
    paths: dict[str, Any] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "holdfast",
            "version": version,
            "description": "The control plane of streaming jobs that survive failures.",
        },
        "paths": paths,
        "components": {
            "schemas": {**schemas.get("$defs", {}), "Error": _ERROR},
            "securitySchemes": {
                "user": {"type": "http", "scheme": "bearer", "description": "The token in the file user.token"},
                "node": {"type": "http", "scheme": "bearer", "description": "The token in the file node.token"},
            },
        },
    }


_FIELD_ERROR = {
    "type": "object",
    "description": "One error of a document: its place (keys from the top) and its text",
    "properties": {"place": {"type": "array", "items": {"type": ["string", "integer"]}}, "text": {"type": "string"}},
    "required": ["place", "text"],
}
_ERROR = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "errors": {"type": "array", "items": _FIELD_ERROR}},
    "required": ["error"],
}


def _operation(call: Call) -> dict[str, Any]:
    statuses = {*call.statuses, *((401, 403) if call.token != "none" else ()), *((400, 413) if call.body is not None else ()), 422}
    schema = _ref(call.answer) if call.answer is not None else {"type": "object"}
    streams = call.media != "application/json"
    content = {call.media: {"schema": {"type": "string"} if streams else schema}}
    answers: dict[str, Any] = {str(call.status): {"description": "Done", "content": content}}
    for status in sorted(statuses):
        answers[str(status)] = (
            {"description": "Nothing newer"}
            if status == 204
            else {
                "description": DESCRIPTIONS[status],
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            }
        )
    operation: dict[str, Any] = {
        "summary": call.summary,
        "operationId": call.handler.__name__,
        "tags": [call.tag],
        "parameters": [*map(_path_parameter, re.findall(r"{(\w+)}", call.path)), *map(_query_parameter, call.query)],
        "responses": answers,
        "security": [] if call.token == "none" else [{call.token: []}],
    }
    if call.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": _ref(call.body)}}}
    return operation


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 1} if name == "id" else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameter(query: QueryParameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": query.kind}
    if query.kind != "string":
        schema |= {"minimum": query.minimum, "maximum": query.maximum}
    if query.default is not None:
        schema["default"] = query.default
    return {"name": query.name, "in": "query", "required": False, "schema": schema, "description": query.description}
