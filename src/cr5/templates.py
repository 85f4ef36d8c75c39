"""Templates of HTML pages, which escape all values and fail if a value is missing."""

from jinja2 import Environment, PackageLoader, StrictUndefined


def template_environment(package: str) -> Environment:
    """The templates in the folder ``templates`` of a package."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def read_asset(environment: Environment, name: str) -> str:
    """A file next to the templates that goes into a page unchanged."""
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]
