"""The Python part of an app host: `auth`, `encryption`, `http.app` and `store.index.embed` of an application."""
