"""The pool of isolates: handing out tasks, watching them run, and ending them."""
