import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { cloneScript, ticketFile } from '../../src/controllers/conversation/start/clone.ts';
import { stepFolder } from '../../src/controllers/conversation/start/step-command.ts';

export interface CloneWish {
  readonly name?: string;
  /** URL of the host. */
  readonly from: string;
  /** URL of a gateway, with a ticket for it. */
  readonly through?: string;
  /** Program that leaves the settings of git for the shells of the sandbox. */
  readonly accessScript?: string;
  readonly mirrors?: string;
  readonly maxMebibytes?: number;
  /** More variables of the sandbox. */
  readonly env?: Readonly<Record<string, string>>;
  /** Leaves files of an earlier conversation in the workspace, also the home of its user. */
  readonly before?: (workspace: string) => void;
}

/** Runs the script as a step, with its output in the step's log, in a new folder in `folder`. */
export async function runClone(
  folder: string,
  {
    name = 'acme/shop',
    from,
    through,
    accessScript,
    mirrors,
    maxMebibytes = 100,
    env = {},
    before,
  }: CloneWish,
) {
  // Waits for what is shorter than a second, which the script does on its way.
  const programs = join(folder, 'programs');
  mkdirSync(programs, { recursive: true });
  const sleep = '#!/bin/sh\ncase $1 in 0.*) exec /bin/sleep "$1" ;; esac\necho "$1" >>slept\n';
  writeFileSync(join(programs, 'sleep'), sleep, { mode: 0o755 });
  const cwd = mkdtempSync(join(folder, 'workspace-'));
  mkdirSync(join(cwd, stepFolder('clone')), { recursive: true });
  before?.(cwd);
  if (through !== undefined) writeFileSync(join(cwd, ticketFile), 'ticket');
  const log = join(cwd, stepFolder('clone'), 'log.1');
  const gatewayUrl = through === undefined ? undefined : `${through}/${name}.git`;
  const script = cloneScript({
    repository: { name },
    hosts: { forgejo: from },
    gatewayUrl,
    maxMebibytes,
    accessScript,
  });
  const child = spawn('/bin/sh', ['-c', `exec >${log} 2>&1\n${script}`], {
    cwd,
    env: {
      PATH: `${programs}:${process.env['PATH'] ?? ''}`,
      HOME: cwd,
      ...(mirrors !== undefined && { GIT_MIRRORS: mirrors }),
      ...env,
    },
    stdio: 'ignore',
  });
  const [code] = (await once(child, 'close')) as [number];
  const slept = existsSync(join(cwd, 'slept'))
    ? readFileSync(join(cwd, 'slept'), 'utf8').trim().split('\n').map(Number)
    : [];
  const project = join(cwd, 'project');
  return {
    code,
    slept,
    project,
    isThere: existsSync(join(project, 'README.md')),
    output: readFileSync(log, 'utf8'),
    left: readdirSync(join(cwd, '.agent')),
  };
}
