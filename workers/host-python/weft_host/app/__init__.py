"""The Python part of an app host: `auth`, `http.app` and `store.index.embed` of an application."""
