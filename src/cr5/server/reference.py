"""The API reference at /docs: an OpenAPI schema as one HTML page.

Swagger UI, FastAPI's own, loads scripts from elsewhere, which the content security policy forbids and a machine without
internet cannot do.
"""

from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring


def render_reference(openapi: dict[str, Any]) -> bytes:
    """The page as HTML; the serialiser escapes all text."""
    html = Element("html", lang="en")
    head, body = SubElement(html, "head"), SubElement(html, "body")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    title = f"{openapi['info']['title']} {openapi['info']['version']}"
    _text(head, "title", title)
    SubElement(head, "link", rel="stylesheet", href="/static/reference.css")
    main = SubElement(body, "main")
    _text(main, "h1", title)
    _text(main, "p", openapi["info"].get("description", ""))
    link = SubElement(SubElement(main, "p"), "a", href="/openapi.json")
    link.text = "openapi.json"
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            _operation(main, f"{method.upper()} {path}", operation, openapi)
    content: bytes = tostring(html, encoding="utf-8", method="html")
    return b"<!doctype html>\n" + content


def _operation(main: Element, name: str, operation: dict[str, Any], openapi: dict[str, Any]) -> None:
    section = SubElement(main, "section")
    _text(SubElement(section, "h2"), "code", name)
    _text(section, "p", operation.get("description") or operation.get("summary", ""))
    for parameter in operation.get("parameters", []):
        _field(section, parameter["name"], parameter["schema"], parameter.get("required", False), parameter)
    content = operation.get("requestBody", {}).get("content", {})
    for media, about in content.items():
        _text(section, "h3", f"Body: {media}")
        _fields(section, about["schema"], openapi)
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            for media, about in response.get("content", {}).items():
                _text(section, "h3", f"Response {status}: {media}")
                _fields(section, about.get("schema", {}), openapi)
    others = [status for status in operation["responses"] if not status.startswith("2")]
    if others:
        openai = name.partition(" ")[2].startswith("/v1/")
        body = '{"error": {"message", "type", "param", "code"}}' if openai else '{"error": "one sentence"}'
        _text(section, "p", f"Errors: {', '.join(others)}, each {body}.")


def _fields(parent: Element, schema: dict[str, Any], openapi: dict[str, Any]) -> None:
    schema = _resolve(schema, openapi)
    for name, about in schema.get("properties", {}).items():
        _field(parent, name, about, name in schema.get("required", ()), about)
        inner = _resolve(about.get("items", {}), openapi)
        if inner.get("properties"):
            _fields(SubElement(parent, "blockquote"), inner, openapi)


def _field(parent: Element, name: str, schema: dict[str, Any], required: bool, about: dict[str, Any]) -> None:
    row = SubElement(parent, "p")
    _text(row, "code", name)
    parts = [_type(schema), "required" if required else "", about.get("description", "")]
    SubElement(row, "span").text = " " + ", ".join(filter(None, parts))


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(part) for part in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def _resolve(schema: dict[str, Any], openapi: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    resolved: dict[str, Any] = openapi["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return resolved


def _text(parent: Element, tag: str, text: str) -> None:
    SubElement(parent, tag).text = text
