"""An audit as text, JSON, HTML and a picture."""
