import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { storedTexts } from './history.ts';
import type { Installation } from './installation.ts';
import { kubectl } from './kubectl.ts';
import { memoryHas } from './process-memory.ts';
import { lives, processFile } from './process-file.ts';

/** Base64 of a text within a longer one, which starts at any of three places of the encoding. */
const base64Parts = (text: string): readonly string[] =>
  [0, 1, 2].map((offset) => {
    const padded = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]);
    const encoded = padded.toString('base64').replaceAll('=', '');
    // The characters at both ends depend on the bytes beside the text as well.
    return encoded.slice(Math.ceil((offset * 4) / 3), padded.length % 3 === 0 ? undefined : -1);
  });

/** A key as programs may write it down, and as somebody may who hides it from a search. */
export function formsOfKey(key: string): readonly string[] {
  const bytes = Buffer.from(key);
  const half = key.length >> 1;
  const base64 = base64Parts(key);
  return [
    ...new Set([
      key,
      encodeURIComponent(key),
      JSON.stringify(key).slice(1, -1),
      bytes.toString('hex'),
      bytes.toString('hex').toUpperCase(),
      ...base64,
      ...base64.map((part) => part.replaceAll('+', '-').replaceAll('/', '_')),
      key.split('').toReversed().join(''),
      key.slice(half) + key.slice(0, half),
    ]),
  ];
}

const keyIn = (text: string, forms: readonly string[]): boolean =>
  forms.some((form) => text.includes(form));

/** The processes of an installation's sandboxes, and what they have started with any environment. */
export function sandboxProcesses(up: Pick<Installation, 'agentProcesses'>): readonly number[] {
  const all = readdirSync('/proc').filter((entry) => /^\d+$/.test(entry));
  const parents = all.map((pid): [number, number] => [
    Number(pid),
    Number(/^PPid:\s*(\d+)/m.exec(processFile(pid, 'status'))?.[1] ?? 0),
  ]);
  const found = new Set(up.agentProcesses());
  let size: number;
  do {
    size = found.size;
    for (const [pid, parent] of parents) if (found.has(parent)) found.add(pid);
  } while (found.size > size);
  return [...found];
}

/** Parts of a process with the key: environment and arguments in any form, and memory. */
export function tracesInProcess(pid: number, key: string): readonly string[] {
  const has = (part: string): boolean => {
    if (part !== 'mem') return keyIn(processFile(pid, part), formsOfKey(key));
    try {
      return memoryHas(pid, key, ...base64Parts(key));
    } catch (error) {
      if (!lives(pid)) return false;
      throw error;
    }
  };
  return ['environ', 'cmdline', 'mem'].filter(has).map((part) => `/proc/${pid}/${part}`);
}

/** The files below a folder that have the key. */
export function filesWithKey(folder: string, forms: readonly string[]): readonly string[] {
  const args = ['-rlaF', '-D', 'skip', ...forms.flatMap((form) => ['-e', form]), folder];
  const { status, error, stdout } = spawnSync('grep', args, {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], LC_ALL: 'C' },
  });
  // The status 2 is for files that disappeared during the search.
  if (status === null) throw error ?? new Error('grep was ended');
  return stdout.split('\n').filter((path) => path !== '');
}

const listSchema = z.object({
  items: z.array(
    z.looseObject({
      kind: z.string(),
      metadata: z.looseObject({ name: z.string() }),
      data: z.record(z.string(), z.unknown()).optional(),
    }),
  ),
});

/** The objects of a list, as the API server writes it, that have the key. */
export function objectsWithKey(json: string, forms: readonly string[]): readonly string[] {
  return listSchema
    .parse(JSON.parse(json))
    .items.filter((item) => {
      const decoded =
        item.kind === 'Secret'
          ? Object.values(item.data ?? {}).map((value) =>
              Buffer.from(String(value), 'base64').toString('latin1'),
            )
          : [];
      return keyIn([JSON.stringify(item), ...decoded].join('\n'), forms);
    })
    .map(({ kind, metadata: { name } }) => `${kind} ${name}`);
}

async function ofKubectl(up: Pick<Installation, 'kubeconfig'>, ...args: readonly string[]) {
  const { code, stdout, stderr } = await kubectl(up.kubeconfig, args);
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

/**
 * Where an installation has a key outside of its own process: in processes, files, volumes and
 * archives of sandboxes, in objects of every kind that the API server lists, and in logs.
 */
export async function tracesOfKey(up: Installation, key: string): Promise<readonly string[]> {
  const forms = formsOfKey(key);
  const listed = await ofKubectl(up, 'api-resources', '--verbs=list', '-o', 'name');
  const kinds = listed.split('\n').filter((kind) => kind !== '');
  if (!kinds.some((kind) => kind.startsWith('sandboxes.')) || !kinds.includes('secrets'))
    throw new Error(`the API server lists ${listed}`);
  const json = await ofKubectl(up, 'get', kinds.join(), '--all-namespaces', '-o', 'json');
  const archive = join(up.dataDir, 'archive');
  const archived = existsSync(archive) ? [...storedTexts(archive)] : [];
  return [
    ...sandboxProcesses(up).flatMap((pid) => tracesInProcess(pid, key)),
    ...filesWithKey(up.dataDir, forms),
    ...archived.filter(([, text]) => keyIn(text, forms)).map(([path]) => path),
    ...objectsWithKey(json, forms),
    ...(keyIn(up.output, forms) ? ['the log'] : []),
  ];
}
