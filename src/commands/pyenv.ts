import { accessSync, constants, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** The versions of Python that the OpenHands agent runs with, as pyenv names its folders. */
const suitable = /^3\.(12|13)\.(\d+)$/;

/**
 * Returns the newest suitable Python that pyenv has installed; undefined where there is none. uv
 * does not find such a Python: of pyenv's Pythons only the chosen one is on the PATH.
 */
export function pyenvPython({
  PYENV_ROOT = '',
  HOME = '',
}: Readonly<Record<string, string | undefined>>): string | undefined {
  const folder = join(PYENV_ROOT === '' ? join(HOME, '.pyenv') : PYENV_ROOT, 'versions');
  const [newest] = namesIn(folder)
    .flatMap((name) => {
      const [, minor, patch] = suitable.exec(name) ?? [];
      const python = join(folder, name, 'bin', 'python');
      return minor !== undefined && isExecutable(python)
        ? [{ python, minor: Number(minor), patch: Number(patch) }]
        : [];
    })
    .toSorted((one, other) => other.minor - one.minor || other.patch - one.patch);
  return newest?.python;
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
