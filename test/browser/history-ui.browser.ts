import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Download } from 'playwright-core';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { unzip } from '../support/unzip.ts';
import { Window } from './support/browser.ts';
import { complaints } from './support/exceptions.ts';
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
  await window.page.goto(/http:\S+\/login\?token=\S+/.exec(up.output)?.[0] ?? '');
  await window.page.waitForURL(`${up.url}/`);
}, 180_000);
afterAll(async () => {
  await window.close();
  await up.stop();
  await git.stop();
  rmSync(ends, { recursive: true, force: true });
}, 30_000);

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
  const task = await up.over((await up.start(text, more)).id, 30_000);
  return z.string().parse(task.app_conversation_id);
}

/** Opens a conversation, as a person who has its address does. */
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

/** Opens the panel beside the chat, which begins with the files. */
const openPanel = (): Promise<void> => part('right-panel-toggle').first().click();

describe("the history of a conversation in the official web UI, on the service's own origin", () => {
  step('shows the files of a conversation that runs', async () => {
    const { page } = window;
    shop = await started(changing, { selected_repository: 'acme/shop', selected_branch: 'main' });
    await up.reaches(shop, { execution_status: 'finished' });
    await open(shop);
    await showsHistory();
    await openPanel();
    const tree = part('files-tab-tree');
    await tree.getByText('README.md').click();
    await part('files-tab-content').getByText('pears').first().waitFor();
    await tree.getByText('src').first().waitFor();
    void page;
  });

  step('shows what differs from the repository', async () => {
    await part('conversation-tab-commits').click();
    await part('uncommitted-changes-row').waitFor();
    await window.picture('x');
  });
});
void [writeFileSync, readFileSync, eventually, unzip, complaints, digging, containerOf] as unknown as Download;
