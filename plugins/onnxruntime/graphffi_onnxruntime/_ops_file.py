def write_ops(path): pass
