"""The reference: an OpenAPI schema as a page, without a script and without anything from elsewhere."""

from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring


def reference(schema: dict[str, Any]) -> bytes:
    """A page in HTML; every text in it is escaped by the serialiser."""
    html = Element("html", lang="en")
    head, body = SubElement(html, "head"), SubElement(html, "body")
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    title = f"{schema['info']['title']} {schema['info']['version']}"
    _text(head, "title", title)
    SubElement(head, "link", rel="stylesheet", href="/static/reference.css")
    main = SubElement(body, "main")
    _text(main, "h1", title)
    _text(main, "p", schema["info"].get("description", ""))
    link = SubElement(SubElement(main, "p"), "a", href="/openapi.json")
    link.text = "openapi.json"
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            _operation(main, f"{method.upper()} {path}", operation, schema)
    content: bytes = tostring(html, encoding="utf-8", method="html")
    return b"<!doctype html>\n" + content


def _operation(main: Element, name: str, operation: dict[str, Any], schema: dict[str, Any]) -> None:
    section = SubElement(main, "section")
    _text(SubElement(section, "h2"), "code", name)
    _text(section, "p", operation.get("description") or operation.get("summary", ""))
    for parameter in operation.get("parameters", []):
        _field(section, parameter["name"], parameter["schema"], parameter.get("required", False), parameter)
    content = operation.get("requestBody", {}).get("content", {})
    for media, about in content.items():
        _text(section, "h3", f"Body: {media}")
        _fields(section, about["schema"], schema)
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            for media, about in answer.get("content", {}).items():
                _text(section, "h3", f"Answer {status}: {media}")
                _fields(section, about.get("schema", {}), schema)
    others = [status for status in operation["responses"] if not status.startswith("2")]
    if others:
        _text(section, "p", f'Other answers: {", ".join(others)}, each {{"error": "one sentence"}}.')


def _fields(parent: Element, shape: dict[str, Any], schema: dict[str, Any]) -> None:
    shape = _resolved(shape, schema)
    for name, about in shape.get("properties", {}).items():
        _field(parent, name, about, name in shape.get("required", ()), about)
        inner = _resolved(about.get("items", {}), schema)
        if inner.get("properties"):
            _fields(SubElement(parent, "blockquote"), inner, schema)


def _field(parent: Element, name: str, shape: dict[str, Any], required: bool, about: dict[str, Any]) -> None:
    row = SubElement(parent, "p")
    _text(row, "code", name)
    parts = [_type(shape), "required" if required else "", about.get("description", "")]
    SubElement(row, "span").text = " " + ", ".join(filter(None, parts))


def _type(shape: dict[str, Any]) -> str:
    if "anyOf" in shape:
        return " or ".join(_type(part) for part in shape["anyOf"])
    if "enum" in shape:
        return " or ".join(map(str, shape["enum"]))
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    if shape.get("type") == "array":
        return f"list of {_type(shape.get('items', {}))}"
    return str(shape.get("type", "any"))


def _resolved(shape: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in shape:
        return shape
    found: dict[str, Any] = schema["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
    return found


def _text(parent: Element, tag: str, text: str) -> None:
    SubElement(parent, tag).text = text
