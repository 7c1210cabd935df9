import { execFile } from 'node:child_process';
import { mkdtemp, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { eventually } from '../../support/eventually.ts';
import type { Credentials } from '@conversation-operator/object-store/s3-credentials';
import { program, type Installation } from '../../support/installation.ts';
import { kubectl } from '../../support/kubectl.ts';
import type { S3Server } from './s3-server.ts';

const run = promisify(execFile);

/** Time of a pause until the pod is deleted, which the installations of these tests have. */
export const pauseTimeoutSeconds = 8;

/** Replaces the files of a mounted Secret. */
export async function writeCredentials(directory: string, keys: Credentials): Promise<void> {
  const texts = { 'access-key-id': keys.accessKeyId, 'secret-access-key': keys.secretAccessKey };
  for (const [name, text] of Object.entries(texts)) {
    await writeFile(join(directory, `${name}.new`), text);
    await rename(join(directory, `${name}.new`), join(directory, name));
  }
}

/** The settings of an archive in a bucket, with a folder of credentials of its own. */
export async function archiveSettings(
  server: S3Server,
  bucket: string,
  { folder, keys = server.credentials }: { readonly folder: string; readonly keys?: Credentials },
) {
  const directory = await mkdtemp(join(folder, 'credentials-'));
  await writeCredentials(directory, keys);
  return {
    ARCHIVE_S3_BUCKET: bucket,
    ARCHIVE_S3_ENDPOINT: server.url,
    ARCHIVE_S3_REGION: server.region,
    ARCHIVE_S3_PREFIX: 'a/prefix',
    ARCHIVE_S3_CREDENTIALS_DIR: directory,
    PAUSE_TIMEOUT_SECONDS: String(pauseTimeoutSeconds),
  };
}

const eventSchema = z.looseObject({ id: z.string(), kind: z.string() });
export type StoredEvent = z.output<typeof eventSchema>;
const pageSchema = z.object({ items: z.array(eventSchema), next_page_id: z.string().nullable() });

/** A user of an installation whose conversations are archived, with kubectl. */
export class ArchiveScene {
  readonly up: Installation;
  readonly #settings: Readonly<Record<string, string>>;

  constructor(up: Installation, settings: Readonly<Record<string, string>>) {
    this.up = up;
    this.#settings = settings;
  }

  async k(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await kubectl(this.up.kubeconfig, args);
    if (code !== 0) throw new Error(stderr);
    return stdout;
  }

  async started(text: string): Promise<{ readonly id: string; readonly sandbox: string }> {
    const task = await this.up.over((await this.up.start(text)).id);
    if (task.status !== 'READY') throw new Error(`the start failed: ${task.error ?? ''}`);
    return { id: task.app_conversation_id ?? '', sandbox: task.sandbox_id ?? '' };
  }

  async finished(text: string) {
    const conversation = await this.started(text);
    await this.up.reaches(conversation.id, { execution_status: 'finished' }, 90_000);
    return conversation;
  }

  /** Pauses a sandbox. Returns the milliseconds until its pod is gone. */
  async paused(sandbox: string): Promise<number> {
    const began = performance.now();
    const { status } = await this.up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    if (status !== 200) throw new Error(`the pause was refused: ${status}`);
    await this.k('wait', `sandbox/${sandbox}`, '--for=condition=Paused', '--timeout=60s');
    await this.k('wait', `pod/${sandbox}`, '--for=delete', '--timeout=60s');
    return performance.now() - began;
  }

  async resumed(id: string, sandbox: string): Promise<void> {
    await this.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`, { run: true });
    await this.up.reaches(id, { sandbox_status: 'RUNNING' });
  }

  /** Waits for a reason of the condition Archived. */
  async reaches(id: string, reason: string): Promise<void> {
    const path = `jsonpath={.status.conditions[?(@.type=="Archived")].reason}`;
    await this.k('wait', `conversation/${id}`, `--for=${path}=${reason}`, '--timeout=70s');
  }

  async uid(id: string): Promise<string> {
    return this.k('get', 'conversation', id, '-o', 'jsonpath={.metadata.uid}');
  }

  async archivedEvents(id: string): Promise<number> {
    return Number(
      await this.k('get', 'conversation', id, '-o', 'jsonpath={.status.archive.events}'),
    );
  }

  /** All events of a conversation, oldest first, wherever the gateway reads them. */
  async events(id: string): Promise<readonly StoredEvent[]> {
    const all: StoredEvent[] = [];
    let next: string | null = null;
    do {
      const from: string = next === null ? '' : `&page_id=${encodeURIComponent(next)}`;
      const path = `/api/v1/conversation/${id}/events/search?limit=100${from}`;
      // A service that has just started again may ask its clients to try again.
      const { status, body } = await eventually('an answer', async () => {
        const answer = await this.up.call('GET', path);
        return answer.status !== 503 && answer;
      });
      if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`);
      const page = pageSchema.parse(body);
      all.push(...page.items);
      next = page.next_page_id;
    } while (next !== null);
    return all;
  }

  /** The sum of a metric of the operator, by a part of its labels. */
  async metric(name: string, label = ''): Promise<number> {
    const url = /metrics\s+(http\S+)/.exec(this.up.output)?.[1] ?? '';
    const lines = (await (await fetch(url)).text()).split('\n');
    return lines
      .filter((line) => line.startsWith(`conversation_operator_${name}`) && line.includes(label))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  }

  /** Runs `conversation-operator archive`. A failure is a result. */
  async archive(...args: readonly string[]) {
    const options = ['--kubeconfig', this.up.kubeconfig];
    const command = run(process.execPath, [program, 'archive', ...args, ...options], {
      env: { PATH: process.env['PATH'], DATA_DIR: this.up.dataDir, ...this.#settings },
      maxBuffer: 64 * 1024 * 1024,
    });
    try {
      return { code: 0, ...(await command) };
    } catch (error) {
      const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
      return { code, stdout, stderr };
    }
  }

  /** The states that `verify` shows, by conversation; throws where an archive is damaged. */
  async verified(): Promise<ReadonlyMap<string, string>> {
    const { code, stdout, stderr } = await this.archive('verify');
    if (code !== 0) throw new Error(`${code}: ${stdout}${stderr}`);
    const rows = stdout.trim().split('\n').slice(1);
    return new Map(
      rows.map((row) => {
        const [name = '', , state = '', events = ''] = row.split(/ {2,}/);
        return [name, `${state} ${events}`];
      }),
    );
  }

  async exported(name: string): Promise<readonly unknown[]> {
    const { code, stdout, stderr } = await this.archive('export', name);
    if (code !== 0) throw new Error(`${code}: ${stderr}`);
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown);
  }
}

/** A message to the reference agent, which executes each line as a command of its own. */
export const commands = (...lines: readonly string[]): string =>
  lines.map((line) => `\`\`\`sh\n${line}\n\`\`\``).join('\n');

/** Commands whose output does not compress, with about 12 KiB each. */
export const manyCommands = (count: number): string =>
  commands(
    ...Array.from(
      { length: count },
      (_, index) => `echo part ${index}; head -c 9000 /dev/urandom | base64 -w0`,
    ),
  );
