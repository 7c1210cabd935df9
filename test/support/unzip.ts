import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** Checks each file against its checksum, and prints names and texts, or the names alone. */
const reader = `
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    bad = archive.testzip()
    if bad is not None: raise Exception('damaged: ' + bad)
    names = archive.namelist()
    print(json.dumps([[name, archive.read(name).decode() if sys.argv[2] == 'texts' else ''] for name in names]))
`;

/** Names and texts of the files of a ZIP archive in its order, as Python reads it. */
export async function unzip(
  archive: Buffer,
  what: 'texts' | 'names' = 'texts',
): Promise<readonly (readonly [name: string, text: string])[]> {
  const folder = await mkdtemp(join(tmpdir(), 'unzip-'));
  try {
    const path = join(folder, 'archive.zip');
    await writeFile(path, archive);
    const { stdout } = await execute('python3', ['-c', reader, path, what], {
      maxBuffer: 64 * 1024 * 1024,
    });
    return JSON.parse(stdout) as [string, string][];
  } finally {
    await rm(folder, { recursive: true });
  }
}
