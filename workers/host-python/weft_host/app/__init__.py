"""The Python part of an app host: what an application brings beside its graphs."""
