def draw_training(rows, family, path): pass
