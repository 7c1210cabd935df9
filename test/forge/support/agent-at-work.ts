import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { eventually } from '../../support/eventually.ts';
import type { Installation } from '../../support/installation.ts';
import { kubectl } from '../../support/kubectl.ts';
import type { RestUser } from '../../support/rest-user.ts';

const conversationSchema = z.object({
  status: z.object({
    pushes: z.array(z.object({ ref: z.string(), outcome: z.string() })).default([]),
  }),
});

/** The result of one script of an agent. */
export interface Ran {
  readonly code: number;
  /** The standard output and the standard error, in the order of their lines. */
  readonly output: string;
}

/** A conversation whose agent runs scripts in its clone of a repository. */
export interface AgentAtWork {
  readonly conversation: string;
  readonly sandbox: string;
  /** Folders of the sandbox on this machine. */
  readonly workspace: string;
  readonly project: string;
  /** Runs a script in the project; a paused sandbox resumes for that. */
  readonly run: (script: string) => Promise<Ran>;
  pause(): Promise<void>;
  /** The recorded pushes, the oldest first. */
  pushes(): Promise<readonly (readonly [ref: string, outcome: string])[]>;
}

export interface ScriptRunnerOptions {
  readonly user: RestUser;
  readonly conversation: string;
  /** Reads a file of the workspace. Undefined, or an error: it is not there yet. */
  readonly read: (name: string) => Promise<string | undefined> | string | undefined;
  readonly timeoutMs?: number;
}

/** Runs scripts of messages one after the other; a paused sandbox resumes for that. */
export function scriptRunner(options: ScriptRunnerOptions): (script: string) => Promise<Ran> {
  const { user, conversation, read, timeoutMs } = options;
  let scripts = 0;
  return async (script) => {
    const name = `ran-${++scripts}`;
    const text = [
      '```sh',
      `(\n${script}\n) >../${name}.new 2>&1`,
      `echo "code $?" >>../${name}.new`,
      `mv ../${name}.new ../${name}`,
      '```',
    ].join('\n');
    await say(user, conversation, text);
    const done = await eventually(`the agent has run: ${script}`, () => read(name), timeoutMs);
    const [, output = '', code] = /^([^]*)code (\d+)\n?$/.exec(done) ?? [];
    return { code: Number(code), output };
  };
}

/** Sends a message; a paused sandbox gets it later. Throws where it is refused. */
export async function say(user: RestUser, conversation: string, text: string): Promise<void> {
  const { status, body } = await user.call(
    'POST',
    `/api/v1/app-conversations/${conversation}/send-message`,
    { role: 'user', content: [{ type: 'text', text }], run: true },
  );
  if (status !== 200 && status !== 202)
    throw new Error(`a message: ${status} ${JSON.stringify(body)}`);
}

/** A message by which the reference agent calls a tool of the gateway. */
export const toolCall = (name: string, input: object): string =>
  ['```tool ' + name, JSON.stringify(input), '```'].join('\n');

/** Starts a conversation about a repository, and waits for its agent. */
export async function startAgent(up: Installation, repository: string): Promise<AgentAtWork> {
  const { id } = await up.start('Hello.', { selected_repository: repository });
  const task = await up.over(id);
  if (task.status !== 'READY') throw new Error(`the start of ${repository}: ${task.error ?? ''}`);
  const conversation = task.app_conversation_id ?? '';
  const sandbox = task.sandbox_id ?? '';
  const { stdout: uid } = await kubectl(up.kubeconfig, [
    ...['get', 'pvc', sandbox, '-o', 'jsonpath={.metadata.uid}'],
  ]);
  const workspace = join(up.dataDir, 'node', 'volumes', uid);
  return {
    conversation,
    sandbox,
    workspace,
    project: join(workspace, 'project'),
    run: scriptRunner({
      user: up,
      conversation,
      read: (name) => {
        const file = join(workspace, name);
        return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
      },
    }),
    async pause() {
      const { status } = await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
      if (status !== 200) throw new Error(`a pause: ${status}`);
      await up.reaches(conversation, { sandbox_status: 'PAUSED' });
    },
    async pushes() {
      const { stdout } = await kubectl(up.kubeconfig, [
        ...['get', 'conversation', conversation, '-o', 'json'],
      ]);
      const { status } = conversationSchema.parse(JSON.parse(stdout));
      return status.pushes.map(({ ref, outcome }) => [ref, outcome] as const);
    },
  };
}

export const commitOn = (branch: string): string =>
  [
    `git checkout -q -B ${branch}`,
    'date +%s%N >>work.txt && git add work.txt',
    "git -c user.name=agent -c user.email=agent@localhost commit -qm 'Work'",
  ].join(' && ');

export const pushOf = (branch: string): string =>
  `${commitOn(branch)} && git push origin ${branch}`;
