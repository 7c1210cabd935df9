import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import {
  agentKeys,
  archiveFolder,
  downloaded,
  eventAnswers,
  eventOf,
  eventPage,
  eventPages,
  eventTexts,
  fileAnswers,
  grown,
  storedTexts,
} from '../support/history.ts';
import { finish, marker, tool, type ModelAnswer } from '../support/model-server.ts';
import { Agents, hookMs, modelKey, startMs } from './support/agents.ts';

const credential = 'bot:s3cret-of-local';
/** Maximum age of an event of a running agent that is not archived, on an idle machine. */
const maxAgeMs = 30_000;
/** Time of one read of the log on a busy machine; the run takes longer than both. */
const readMs = 30_000;

const credentials = mkdtempSync(join(tmpdir(), 'agent-history-'));
let host: GitServer;
let agents: Agents;

beforeAll(async () => {
  const files = { 'README.md': 'A shop.\n', 'old.txt': 'old\n', 'same.txt': 'same\n' };
  host = await GitServer.start({
    repositories: { 'acme/shop': { files } },
    readers: { 'acme/shop': [credential] },
  });
  writeFileSync(join(credentials, 'github.local'), credential);
  agents = await Agents.start({
    GIT_HOSTS: JSON.stringify({ github: host.url }),
    GIT_CREDENTIALS_DIR: credentials,
  });
}, hookMs);
afterAll(async () => {
  // The sandboxes have the key, because commands of these tests print it.
  await agents.stop();
  await host.stop();
  rmSync(credentials, { recursive: true });
}, hookMs);

const begin = (name: string) =>
  agents.begin(`Work. ${marker(name)}`, { selected_repository: 'acme/shop' });
/** Pauses a sandbox, and waits until its agent has ended. */
const pause = async (id: string, sandbox: string) => {
  await beginPause(id, sandbox);
  const processes = () => agents.up.agentProcesses().length;
  await eventually('the agent to end', () => processes() === 0, startMs);
};
const beginPause = async (id: string, sandbox: string) => {
  await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
  await agents.reaches(id, { sandbox_status: 'PAUSED' });
};
const resume = async (id: string, sandbox: string, body?: object) => {
  await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`, body);
  await agents.reaches(id, { sandbox_status: 'RUNNING' });
};

/** Sends a message, which a sandbox that has just been resumed gets later. */
const say = async (id: string) => {
  const message = { role: 'user', content: [{ type: 'text', text: 'Continue.' }], run: true };
  const path = `/api/v1/app-conversations/${id}/send-message`;
  expect([200, 202]).toContain((await agents.up.call('POST', path, message)).status);
};

/** Sends a message that begins a run with these answers of the model, and waits for its end. */
async function work(id: string, script: string, ...answers: readonly ModelAnswer[]): Promise<void> {
  agents.model.script(script, ...answers);
  await say(id);
  const isOver = () => agents.model.requests(script).length === answers.length;
  await eventually(`the work of ${script}`, isOver, startMs);
  await agents.reaches(id, { execution_status: 'finished' });
}

async function metadataOf(kind: string, name: string) {
  const path = '{.metadata.namespace} {.metadata.uid}';
  const [namespace = '', uid = ''] = (
    await agents.k('get', kind, name, '-o', `jsonpath=${path}`)
  ).split(' ');
  return { namespace, uid };
}

/** The number of events in each head of an archive, and its time, until the run is over. */
async function headsOf(id: string): Promise<ReadonlyMap<number, number>> {
  const folder = join(archiveFolder(agents.up, await metadataOf('conversation', id)), 'h');
  const heads = new Map<number, number>();
  const record = () => {
    for (const name of existsSync(folder) ? readdirSync(folder) : []) {
      const { mtimeMs } = statSync(join(folder, name), { throwIfNoEntry: false }) ?? {};
      const events = Number(name.slice(0, 10));
      if (mtimeMs !== undefined && !heads.has(events)) heads.set(events, mtimeMs);
    }
  };
  const watch = setInterval(record, 200);
  try {
    await agents.reaches(id, { execution_status: 'finished' }, 2 * startMs);
    return heads;
  } finally {
    clearInterval(watch);
  }
}

it('the archive answers as the agent did, without secrets, also without the sandbox', async () => {
  const changes = 'echo more >> README.md; git rm -q old.txt; echo new > new.txt';
  const steps = Array.from({ length: 12 }, (_, step) => tool(`sleep 6; echo ${step}`));
  agents.model.script('whole', tool(changes), ...steps, finish);
  const { id, sandbox } = await begin('whole');
  const heads = await headsOf(id);
  const followed = (await eventTexts(agents.up, id)).map(eventOf);
  const ages = followed.flatMap(({ timestamp }, index) => {
    const archived = [...heads].filter(([events]) => events > index).map(([, time]) => time);
    return archived.length === 0 ? [] : [Math.min(...archived) - Date.parse(`${timestamp}Z`)];
  });
  process.stdout.write(
    `${heads.size} heads, ${ages.length} of ${followed.length} events archived during the run, after at most ${Math.max(...ages) / 1000} s\n`,
  );
  expect(ages.length).toBeGreaterThan(10);
  expect(Math.max(...ages)).toBeLessThan(maxAgeMs + readMs);

  const secrets = [...agentKeys(agents.up, (await metadataOf('sandbox', sandbox)).uid), modelKey];
  await work(id, 'whole', tool(`echo ${secrets.join(' ')} | tee leaks.txt`), finish);
  const { workspace } = await agents.up.conversation(id);
  const folder = workspace?.working_dir ?? '';
  const events = (await eventTexts(agents.up, id)).map(eventOf);
  const all = async () => ({
    answers: await eventAnswers(agents.up, id, events),
    files: await fileAnswers(agents.up, id, folder),
    download: (await downloaded(agents.up, id)).slice(0, -1),
  });
  const live = await all();
  expect(live.files.changes).toEqual(
    expect.arrayContaining([
      { status: 'UPDATED', path: 'README.md' },
      { status: 'DELETED', path: 'old.txt' },
      { status: 'ADDED', path: 'new.txt' },
    ]),
  );
  const hidden = (text: string): string =>
    secrets.reduce((rest, secret) => rest.replaceAll(secret, '<secret-hidden>'), text);
  expect(hidden(JSON.stringify(live))).not.toBe(JSON.stringify(live));
  const expected = JSON.parse(hidden(JSON.stringify(live))) as typeof live;

  await pause(id, sandbox);
  expect(await all()).toEqual(expected);
  const place = archiveFolder(agents.up, await metadataOf('conversation', id));
  const stored = storedTexts(join(agents.up.dataDir, 'archive'));
  expect([...stored.values()].join()).toContain('<secret-hidden> <secret-hidden>');
  for (const secret of [...secrets, credential.split(':')[1] ?? ''])
    for (const [path, text] of stored) expect([path, text.includes(secret)]).toEqual([path, false]);

  await agents.up.call('DELETE', `/api/v1/sandboxes/${sandbox}`);
  await agents.reaches(id, { sandbox_status: 'MISSING' });
  expect(await all()).toEqual(expected);
  await agents.delete(id);
  await eventually('the archive to be deleted', () => !existsSync(place));
});

describe.each(['TIMESTAMP', 'TIMESTAMP_DESC'])('pages in the order %s', (order) => {
  it('continue through a pause and a resume, without seam or duplicate', async () => {
    const script = order.toLowerCase().replace('_', '-');
    agents.model.script(script, ...[1, 2, 3, 4, 5, 6].map((step) => tool(`echo ${step}`)), finish);
    const { id, sandbox } = await begin(script);
    await agents.reaches(id, { execution_status: 'finished' });
    const query = `limit=3&sort_order=${order}`;
    const whole = await eventPages(agents.up, id, query);
    expect(whole.length).toBeGreaterThan(4);
    const first = await eventPage(agents.up, id, query);
    await beginPause(id, sandbox);
    const second = await eventPage(agents.up, id, query, first.next);
    await pause(id, sandbox);
    const third = await eventPage(agents.up, id, query, second.next);
    await resume(id, sandbox);
    const rest = [await eventPage(agents.up, id, query, third.next)];
    for (let next = rest[0]?.next; next !== undefined; next = rest.at(-1)?.next)
      rest.push(await eventPage(agents.up, id, query, next));
    const texts = [first, second, third, ...rest].flatMap(({ items }) => items);
    grown(
      whole.flatMap(({ items }) => items),
      texts,
    );
    await agents.delete(id);
  });
});

it('a run that is paused, killed, and killed with everything loses and repeats no event', async () => {
  const long = (name: string) => [
    tool(`echo begun > ${name}; sleep 60`),
    tool(`echo after`),
    finish,
  ];
  agents.model.script('losses', ...long('first'));
  const { id, sandbox } = await begin('losses');
  await agents.file(sandbox, 'first');
  let known = await eventTexts(agents.up, id);
  const expectMore = async (what: string) => {
    const texts = await eventTexts(agents.up, id);
    const kinds = grown(known, texts).map((text) => eventOf(text).kind);
    process.stdout.write(`${what}: ${texts.length} events, new: ${kinds.join(' ')}\n`);
    known = texts;
  };

  await beginPause(id, sandbox);
  await expectMore('pausing');
  await pause(id, sandbox);
  await expectMore('paused');
  await resume(id, sandbox, { run: true });
  await agents.reaches(id, { execution_status: 'finished' });
  await expectMore('finished after a pause');

  agents.model.script('losses', ...long('second'));
  await say(id);
  await agents.file(sandbox, 'second');
  await expectMore('before the death of the agent');
  process.kill(agents.agentProcess(), 'SIGKILL');
  await eventually(
    'the work after the death',
    () => agents.model.requests('losses').length === 3,
    startMs,
  );
  await agents.reaches(id, { execution_status: 'finished' });
  await expectMore('finished after the death of the agent');
  await pause(id, sandbox);
  await expectMore('paused after the death of the agent');
  await resume(id, sandbox);

  agents.model.script('losses', ...long('third'));
  await say(id);
  await agents.file(sandbox, 'third');
  await expectMore('before the death of everything');
  await agents.kill();
  await agents.startAgain();
  await eventually(
    'the work after the death of everything',
    () => agents.model.requests('losses').length === 3,
    startMs,
  );
  await agents.reaches(id, { execution_status: 'finished' });
  await expectMore('finished after the death of everything');
  await pause(id, sandbox);
  await expectMore('paused after the death of everything');
  await agents.delete(id);
});
