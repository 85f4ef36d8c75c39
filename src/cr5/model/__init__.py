"""The model: texts in any language -> vectors of one space. Its class is in ``cr5``."""

import sys

from cr5.model.cr5 import Cr5
from cr5.storage import concept_targets, language_map

# Models that were pickled when these modules lay beside this package name them by their former paths.
sys.modules["cr5.language_map"] = language_map
sys.modules["cr5.concept_targets"] = concept_targets

__all__ = ["Cr5"]
