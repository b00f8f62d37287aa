"""Plain text from what manuals are written in: HTML, pod, man pages, dictionaries. Headings, listings and tables fall to prose.py or here."""
