"""Methods: what one is (`_base.py`), every one by name (`_methods.py`), and one file for each."""

from scoreprior.learners._base import MetaLearner, Posterior, Posteriors, Prior
from scoreprior.learners._function_prior import FunctionPrior
from scoreprior.learners._methods import learner, methods, register

__all__ = ["FunctionPrior", "MetaLearner", "Posterior", "Posteriors", "Prior", "learner", "methods", "register"]
