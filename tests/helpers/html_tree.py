"""An HTML page as a tree of elements."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Node:
    """An element of a page."""

    name: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    children: list["Node | str"] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, name: str, class_: str | None = None) -> Iterator["Node"]:
        for child in self.children:
            if isinstance(child, Node):
                if child.name == name and (class_ is None or class_ in (child.attributes.get("class") or "").split()):
                    yield child
                yield from child.all(name, class_)


class Tree(HTMLParser):
    """A parser that checks that every element is closed, in the right order, and has no attribute twice."""

    VOID = ("meta", "br", "hr", "link", "img", "input")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("")]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"{tag} has an attribute twice"
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in self.VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)


def parse(text: str) -> Node:
    tree = Tree()
    tree.feed(text)
    tree.close()
    assert len(tree.open) == 1, f"<{tree.open[-1].name}> is never closed"
    return tree.open[0]


def everything(node: Node) -> Iterator[Node]:
    for child in node.children:
        if isinstance(child, Node):
            yield child
            yield from everything(child)
