"""From nothing to a published model: a Wikipedia corpus, training, evaluation, model card and push, resumable."""

from cr5.pretraining.forecast import Forecast, forecast
from cr5.pretraining.stages import Pretrained, pretrain

__all__ = ["Forecast", "Pretrained", "forecast", "pretrain"]
