"""The one pipeline, from sources to releases: connect, session, recipe, perform, meter, release."""
