import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const text = readFileSync(join(import.meta.dirname, '../../images/Containerfile'), 'utf8');

/** With what Node starts the program in its image. */
export const imageFlags: readonly string[] = (
  JSON.parse(/^ENTRYPOINT (\[.*\])$/m.exec(text)?.[1] ?? '[]') as string[]
).filter((word) => word.startsWith('--'));

/** The environment that the image sets for the program. */
export const imageEnvironment: Readonly<Record<string, string>> = Object.fromEntries(
  text.matchAll(/^ENV (\w+)=(.*)$/gm).map(([, name = '', value = '']) => [name, value]),
);
