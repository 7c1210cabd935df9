import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { unzip } from '../support/unzip.ts';
import { Window } from './support/browser.ts';
import { complaints } from './support/exceptions.ts';
import { signInByLink } from './support/sign-in.ts';
import { steps } from './support/steps.ts';

let git: GitServer;
let up: Installation;
let window: Window;
/** Folder in which a file ends the run of the same name. */
let ends: string;
/** Ids of conversations: one with a repository, and one whose agent works. */
let shop: string, digging: string;

const block = (code: string) => `\`\`\`sh\n${code}\n\`\`\``;
const changing = `Change the shop:\n${block('echo pears >> README.md; mkdir -p src; echo plums > src/plums.txt')}\n${block('echo $((6*7)) apples')}`;

beforeAll(async () => {
  ends = mkdtempSync(join(tmpdir(), 'history-ui-'));
  git = await GitServer.start({
    repositories: { 'acme/shop': { files: { 'README.md': 'A shop with apples.\n' } } },
  });
  up = await Installation.start({ env: { GIT_HOSTS: JSON.stringify({ github: git.url }) } });
  window = await Window.open({ firstPicture: 131 });
  await signInByLink(window, up.output);
  await window.page.waitForURL(`${up.url}/`);
});
afterAll(async () => {
  await window.close();
  await up.stop();
  await git.stop();
  rmSync(ends, { recursive: true, force: true });
});

const step = steps(() => window);
const part = (name: string) => window.page.getByTestId(name);
const chat = () => part('chat-interface');
const sandboxOf = (id: string): string => `sbx-${id}`;

async function k(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await kubectl(up.kubeconfig, args);
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

const containerOf = (id: string): Promise<string> =>
  k('get', 'sandbox', sandboxOf(id), '-o', 'jsonpath={.status.agentEpoch} {.status.containerID}');

async function started(text: string, more: object = {}): Promise<string> {
  const task = await up.over((await up.start(text, more)).id);
  return z.string().parse(task.app_conversation_id);
}

async function open(id: string): Promise<void> {
  await window.page.goto(`${up.url}/conversations/${id}`);
  await chat().waitFor();
}

/** Waits until the chat has the whole history, each part once. */
async function showsHistory(): Promise<void> {
  await chat().getByText('All blocks succeeded.').first().waitFor();
  await chat().getByText('Change the shop').first().waitFor();
  expect(await chat().getByText('All blocks succeeded.').count()).toBe(1);
}

/** The events of the archive that the menu of the conversation downloads. */
async function downloaded(): Promise<readonly unknown[]> {
  const card = part('conversation-card').filter({ hasText: 'Change the shop' }).first();
  await card.hover();
  await card.getByTestId('ellipsis-button').click();
  const [download] = await Promise.all([
    window.page.waitForEvent('download'),
    part('download-trajectory-button').first().click(),
  ]);
  const files = await unzip(readFileSync(await download.path()));
  return files
    .filter(([name]) => name.startsWith('event_'))
    .map(([, text]) => JSON.parse(text) as unknown);
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended already.
  }
}

async function expectReadOnly(): Promise<void> {
  await window.page.getByText('The history above is read-only.').waitFor();
  expect(await part('chat-input').count()).toBe(0);
}

/** Opens the panel beside the chat, which begins with the files. */
const openPanel = (): Promise<void> => part('right-panel-toggle').first().click();

describe("the history of a conversation in the official web UI, on the service's own origin", () => {
  step('shows the files of a conversation that runs', async () => {
    shop = await started(changing, { selected_repository: 'acme/shop', selected_branch: 'main' });
    await up.reaches(shop, { execution_status: 'finished' });
    await open(shop);
    await showsHistory();
    await openPanel();
    const tree = part('files-tab-tree');
    await tree.getByText('README.md').click();
    await part('files-tab-content').getByText('pears').first().waitFor();
    await tree.getByText('src').first().waitFor();
  });

  step('shows what differs from the repository', async () => {
    await part('conversation-tab-commits').click();
    await part('uncommitted-changes-row').waitFor();
    await part('uncommitted-changes-row').click();
    await part('uncommitted-changes-row-content').getByText('README.md').first().waitFor();
    await part('uncommitted-changes-row-content').getByText('plums.txt').first().waitFor();
  });

  step('shows the history of a paused one, and pauses no agent that works for it', async () => {
    await k(
      ...['patch', 'cq', 'default', '--type', 'merge', '-p'],
      '{"spec":{"limit":1,"onExceeded":"PauseOldest","minActiveSeconds":0}}',
    );
    // The page with the chat would resume the sandbox as soon as the sandbox is paused.
    await window.page.goto(`${up.url}/settings`);
    expect((await up.call('POST', `/api/v1/sandboxes/${sandboxOf(shop)}/pause`)).status).toBe(200);
    await up.reaches(shop, { sandbox_status: 'PAUSED' });
    const end = join(ends, 'digging');
    digging = await started(
      `Dig:\n${block(`until [ -e '${end}' ]; do sleep 0.2; done; echo digging is over`)}`,
    );
    await up.reaches(digging, { execution_status: 'running' });
    const container = await containerOf(digging);
    const resumed = window.page.waitForResponse((response) =>
      response.url().endsWith(`/api/v1/sandboxes/${sandboxOf(shop)}/resume`),
    );
    await open(shop);
    await showsHistory();
    expect((await resumed).status()).toBe(200);
    await up.reaches(shop, {
      sandbox_status: 'STARTING',
      sandbox_status_reason: 'waiting-for-idle-sandbox',
    });
    await showsHistory();
    expect(await up.conversation(digging)).toMatchObject({
      sandbox_status: 'RUNNING',
      execution_status: 'running',
    });
    expect(await containerOf(digging)).toBe(container);
  });

  step('has its files as they were, for which the page asks once an agent answers', async () => {
    const { workspace } = await up.conversation(shop);
    const folder = workspace?.working_dir ?? '';
    const reads = async (path: string): Promise<unknown> =>
      (await up.call('GET', `/api/v1/app-conversations/${shop}/${path}`)).body;
    await expect(reads(`files?path=${folder}`)).resolves.toEqual(['README.md', 'src/plums.txt']);
    await expect(reads(`git/changes?path=${folder}`)).resolves.toHaveLength(2);
  });

  step('downloads it', async () => {
    const events = await downloaded();
    const { body } = await up.call('GET', `/api/v1/conversation/${shop}/events/count`);
    expect(events).toHaveLength(z.number().parse(body));
    expect(events.at(-1)).toMatchObject({ kind: expect.any(String) as unknown });
  });

  step('continues it once there is room, with each event once', async () => {
    const before = window.sockets.length;
    writeFileSync(join(ends, 'digging'), '');
    await up.reaches(shop, { sandbox_status: 'RUNNING' });
    await eventually('a WebSocket with news', () =>
      window.sockets
        .slice(before)
        .some(
          ({ open: isOpen, url, received }) => isOpen && url.includes(shop) && received.length > 0,
        ),
    );
    await part('chat-input').click();
    await window.page.keyboard.type('Thanks.');
    await part('submit-button').click();
    await chat().getByText('the message has none').waitFor();
    await showsHistory();
  });

  step('shows the whole history of one whose sandbox is deleted, read-only', async () => {
    await window.page.goto(`${up.url}/settings`);
    expect((await up.call('POST', `/api/v1/sandboxes/${sandboxOf(shop)}/pause`)).status).toBe(200);
    await eventually('everything to be archived', async () =>
      /Complete/.test(await k('get', 'conversation', shop, '-o', 'jsonpath={.status.conditions}')),
    );
    expect((await up.call('DELETE', `/api/v1/sandboxes/${sandboxOf(shop)}`)).status).toBe(200);
    await up.reaches(shop, { sandbox_status: 'MISSING' });
    await open(shop);
    await showsHistory();
    await chat().getByText('the message has none').waitFor();
    await expectReadOnly();
    expect((await downloaded()).length).toBeGreaterThan(0);
  });

  step('has everything in the archive soon after the end of a run', async () => {
    await up.reaches(digging, { sandbox_status: 'RUNNING', execution_status: 'finished' });
    await eventually('the archive to have the end of the run', async () => {
      const { body } = await up.call('GET', `/api/v1/conversation/${digging}/events/count`);
      const path = 'jsonpath={.status.archive.events}';
      return (await k('get', 'conversation', digging, '-o', path)) === String(body);
    });
  });

  step('shows the whole history of one that has failed, read-only', async () => {
    await eventually('an agent that has ended three times', async () => {
      for (const pid of up.agentProcesses()) end(pid);
      return (await up.conversation(digging)).sandbox_status === 'ERROR';
    });
    await open(digging);
    await chat().getByText('digging is over').first().waitFor();
    await chat().getByText('All blocks succeeded.').waitFor();
    await expectReadOnly();
  });

  it('has announced no fault', () => {
    expect(complaints(window.announced)).toEqual([]);
    expect([...window.outside]).toEqual([]);
  });
});
