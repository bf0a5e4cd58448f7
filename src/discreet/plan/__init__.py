"""The compiler: from the text of a question to SQL, mechanisms and a cost, before any data is touched."""
