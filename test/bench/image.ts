import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const textOf = (path: string): string =>
  readFileSync(join(import.meta.dirname, '../..', path), 'utf8');
const text = textOf('images/Containerfile');

const flagsIn = (command = ''): readonly string[] => command.match(/--[\w-]+(?:=\w+)?/g) ?? [];

/** Flags of Node in the entry point of the image. */
export const imageFlags = flagsIn(/^ENTRYPOINT (\[.*\])$/m.exec(text)?.[1]);

/** Flags of Node that the chart sets for the operator. */
export const operatorFlags = flagsIn(
  /^ +command: (\[.*\])$/m.exec(textOf('helm/conversation-operator/templates/operator.yaml'))?.[1],
);

export const imageEnvironment: Readonly<Record<string, string>> = Object.fromEntries(
  text.matchAll(/^ENV (\w+)=(.*)$/gm).map(([, name = '', value = '']) => [name, value]),
);
