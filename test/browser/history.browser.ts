import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import type { AgentEvent } from '../../src/agent/event-kinds.ts';
import { entriesOf, markdownOf } from '../../src/sentences/entries.ts';
import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { unzip } from '../support/unzip.ts';
import { violationsIn } from './support/accessibility.ts';
import { Window } from './support/browser.ts';
import { signInByLink } from './support/sign-in.ts';
import { steps } from './support/steps.ts';

let git: GitServer;
let up: Installation;
let window: Window;
/** Folder in which a file ends the run of the same name. */
let ends: string;
let apples: string, plums: string;
/** The events of both conversations as their page showed them while the agent ran. */
let seen: Shown, seenPlums: Shown;

/** Number of blocks, each with two events: more than a page of 50 events. */
const blocks = 30;
const block = (code: string) => `\`\`\`sh\n${code}\n\`\`\``;
const counting = `Count apples:\n${Array.from({ length: blocks }, (_, index) => block(`echo apple ${index + 1}`)).join('\n')}`;

beforeAll(async () => {
  ends = mkdtempSync(join(tmpdir(), 'history-'));
  git = await GitServer.start({ repositories: { 'acme/app': {} } });
  up = await Installation.start({
    env: { GIT_HOSTS: JSON.stringify({ github: git.url }), GIT_CHECK: 'false' },
  });
  window = await Window.open({ firstPicture: 101 });
  await window.page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
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
const sandboxOf = (id: string): string => `sbx-${id}`;
const answered = () => window.page.getByRole('article').getByText('All blocks succeeded.');
/** The button has another name while it loads. */
const older = () => window.page.getByRole('button', { name: /^(Older events|Loading…)$/ });

/** The list of a page: the texts of its entries in their order, and the Markdown that it copies. */
interface Shown {
  readonly texts: readonly string[];
  readonly markdown: string;
}

async function shown(): Promise<Shown> {
  const { page } = window;
  const texts = await page.locator('.history > :is(article, details, .notice)').allTextContents();
  await page.getByRole('button', { name: /^Cop/ }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  return { texts, markdown: await page.evaluate<string>('navigator.clipboard.readText()') };
}

async function opened(id: string): Promise<void> {
  await window.page.goto(`${up.url}/c/${id}`);
  await window.page.locator('.history > article').first().waitFor();
}

/** Loads older events until there are none. Returns how often. */
async function loadAll(): Promise<number> {
  for (let pages = 0; ; pages++) {
    if ((await older().count()) === 0) return pages;
    const first = await window.page.locator('.history > article').first().textContent();
    await older().click();
    await eventually(
      'older events',
      async () =>
        (await older().count()) === 0 ||
        (await window.page.locator('.history > article').first().textContent()) !== first,
    );
  }
}

/** Names of the writes by REST since the start, from the audit. */
const writes = (): readonly string[] =>
  up.output
    .split('\n')
    .filter((line) => line.includes('"message":"Write"'))
    .map((line) => z.object({ action: z.string() }).parse(JSON.parse(line)).action);

/** Expects that axe finds nothing in the page, and that it is as wide as the window at most. */
async function expectReadable(name: string): Promise<void> {
  const { page } = window;
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width: 360, height: 800 });
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    expect(await violationsIn(page)).toEqual([]);
    await window.picture(`${name} ${colorScheme} 360`);
    await page.setViewportSize({ width: 1280, height: 800 });
    expect(await violationsIn(page)).toEqual([]);
    await page.evaluate('scrollTo(0, 0)');
    await window.picture(`${name} ${colorScheme}`);
  }
}

async function started(text: string): Promise<string> {
  const task = await up.start(text);
  const id = z.string().parse((await up.over(task.id)).app_conversation_id);
  await up.reaches(id, { execution_status: 'finished' });
  return id;
}

async function pause(id: string): Promise<void> {
  expect((await up.call('POST', `/api/v1/sandboxes/${sandboxOf(id)}/pause`)).status).toBe(200);
  await up.reaches(id, { sandbox_status: 'PAUSED' });
}

/** Waits until the condition Archived of a conversation has this reason. */
async function archived(id: string, reason: 'Complete' | 'Following'): Promise<void> {
  const path = 'jsonpath={.status.conditions[?(@.type=="Archived")].reason}';
  await eventually(`the archive of ${id} to be ${reason}`, async () => {
    const { stdout } = await kubectl(up.kubeconfig, ['get', 'conversation', id, '-o', path]);
    return stdout === reason;
  });
}

/** Waits until all events that an agent has shown are in the archive as well. */
const followed = (id: string): Promise<unknown> =>
  eventually(`the archive to have all events of ${id}`, async () => {
    const { body: count } = await up.call('GET', `/api/v1/conversation/${id}/events/count`);
    const path = 'jsonpath={.status.archive.events}';
    const { stdout } = await kubectl(up.kubeconfig, ['get', 'conversation', id, '-o', path]);
    return typeof count === 'number' && count > 0 && Number(stdout) === count;
  });

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended already.
  }
}

describe('the history of a conversation on its page', () => {
  step('is read while the agent works', async () => {
    plums = await started(`Count plums:\n${block('echo 9 plums')}`);
    await opened(plums);
    await answered().waitFor();
    seenPlums = await shown();
    const task = await up.start(counting);
    apples = z.string().parse((await up.over(task.id)).app_conversation_id);
    await opened(apples);
    await answered().waitFor();
    await loadAll();
    seen = await shown();
    expect(seen.texts.filter((text) => text.includes('Code block'))).toHaveLength(blocks);
    expect(seen.markdown).toContain(`apple ${blocks}`);
  });

  step('stays on the page when its sandbox is paused', async () => {
    await pause(apples);
    await window.page.locator('.pill', { hasText: 'Paused' }).waitFor();
    await expect(shown()).resolves.toEqual(seen);
    await archived(apples, 'Complete');
  });

  step('is the same when the paused conversation is opened again, newest part first', async () => {
    await opened(apples);
    await answered().waitFor();
    const { texts } = await shown();
    expect(texts.length).toBeLessThan(seen.texts.length);
    // A result whose call is older has an entry of its own until the call is loaded.
    expect(texts.slice(1)).toEqual(seen.texts.slice(1 - texts.length));
    expect(await loadAll()).toBe(1);
    await expect(shown()).resolves.toEqual(seen);
    await expectReadable('a paused history');
  });

  step('has its beginning in one step, and every event at an address', async () => {
    const { page } = window;
    await opened(apples);
    await answered().waitFor();
    await page.getByRole('button', { name: 'Jump to first' }).click();
    await page.locator('[data-marked]', { hasText: 'Count apples' }).waitFor();
    await loadAll();
    expect(await shown()).toEqual(seen);
    const { body } = await up.call('GET', `/api/v1/conversation/${apples}/events/search?limit=9`);
    const { items } = z.object({ items: z.array(z.looseObject({ id: z.string() })) }).parse(body);
    const result = items.findLast(({ kind }) => kind === 'ObservationEvent')?.id ?? '';
    await page.goto(`${up.url}/c/${apples}?event=${result}`);
    await page.locator('details[data-marked][open]').waitFor();
    await page.getByRole('button', { name: 'Find', exact: true }).click();
    await page.keyboard.type(`apple ${blocks}`);
    await page.keyboard.press('Enter');
    await page.locator('.find-state', { hasText: 'Hit 1 of' }).waitFor();
    await page.locator('[data-marked]', { hasText: `apple ${blocks}` }).waitFor();
  });

  step('is a download with the same events', async () => {
    const [download] = await Promise.all([
      window.page.waitForEvent('download'),
      window.page.getByRole('link', { name: 'Download' }).click(),
    ]);
    expect(download.suggestedFilename()).toBe(`conversation_${apples}.zip`);
    const files = await unzip(readFileSync(await download.path()));
    const events = files
      .filter(([name]) => name.startsWith('event_'))
      .map(([, text]) => JSON.parse(text) as AgentEvent);
    expect(markdownOf(entriesOf(events))).toBe(seen.markdown);
    expect(JSON.parse(files.at(-1)?.[1] ?? '')).toMatchObject({
      id: apples,
      event_count: events.length,
      sandbox_status: 'PAUSED',
    });
  });

  step('has resumed nothing', async () => {
    expect(await up.conversation(apples)).toMatchObject({ sandbox_status: 'PAUSED' });
    expect(writes()).toEqual(['startConversation', 'startConversation', 'pauseSandbox']);
  });

  step('continues below after a message, without a move of what is in view', async () => {
    const { page } = window;
    const end = join(ends, 'pears');
    await page
      .getByLabel('Message')
      .fill(`Count pears:\n${block(`until [ -e '${end}' ]; do sleep 0.2; done; echo 8 pears`)}`);
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('heading', { name: 'Events' }).scrollIntoViewIfNeeded();
    const place = page.locator('.history > details').nth(2);
    await place.scrollIntoViewIfNeeded();
    await page.locator('article', { hasText: 'Count pears' }).waitFor({ state: 'attached' });
    await page.locator('.pill', { hasText: 'Running' }).waitFor({ state: 'attached' });
    const before = await place.boundingBox();
    writeFileSync(end, '');
    await page.locator('details', { hasText: '8 pears' }).last().waitFor({ state: 'attached' });
    await page.locator('.pill', { hasText: 'Finished' }).waitFor({ state: 'attached' });
    expect((await place.boundingBox())?.y).toBeCloseTo(before?.y ?? -1, 0);
    const after = await shown();
    expect(after.texts.slice(0, seen.texts.length)).toEqual(seen.texts);
    expect(after.texts.filter((text) => text.includes('Count pears'))).toHaveLength(1);
    seen = after;
  });

  step('stays when the sandbox is deleted', async () => {
    const { page } = window;
    await pause(apples);
    // Also a page that was opened before the archive has everything shows everything soon.
    await opened(apples);
    await archived(apples, 'Complete');
    await page.locator('details', { hasText: '8 pears' }).last().waitFor({ state: 'attached' });
    await loadAll();
    expect(await shown()).toEqual(seen);
    expect((await up.call('DELETE', `/api/v1/sandboxes/${sandboxOf(apples)}`)).status).toBe(200);
    await up.reaches(apples, { sandbox_status: 'MISSING' });
    await page.locator('.pill', { hasText: 'Gone' }).waitFor();
    expect(await shown()).toEqual(seen);
    await opened(apples);
    await loadAll();
    expect(await shown()).toEqual(seen);
    await page.getByText('you can read this conversation, not continue it').waitFor();
    expect(await page.getByLabel('Message').count()).toBe(0);
    await expectReadable('a history without a sandbox');
  });

  step('stays when the agent fails for good, beside the reason', async () => {
    const { page } = window;
    await opened(plums);
    await page.locator('.pill', { hasText: 'Finished' }).waitFor();
    await followed(plums);
    await eventually('an agent that has ended three times', async () => {
      for (const pid of up.agentProcesses()) end(pid);
      return (await up.conversation(plums)).sandbox_status === 'ERROR';
    });
    await page.locator('.pill', { hasText: 'Failed' }).waitFor();
    expect(await shown()).toEqual(seenPlums);
    await opened(plums);
    expect(await shown()).toEqual(seenPlums);
    await page.locator('.state', { hasText: 'The container agent ended 3 times' }).waitFor();
    await page.getByPlaceholder('A message starts its sandbox again.').waitFor();
    await expectReadable('a history of a failed sandbox');
    // A read may meet an agent that has ended a moment before.
    expect(window.faults().filter((fault) => !fault.startsWith('GET 503 '))).toEqual([]);
  });

  step('says of a start that has failed why there is none', async () => {
    const { page } = window;
    const { id: taskId } = await up.start('Count nuts', {
      selected_repository: 'acme/app',
      selected_branch: 'nuts',
    });
    await up.over(taskId);
    const { body } = await up.call('GET', '/api/v1/app-conversations/search?title__contains=nuts');
    const { items } = z.object({ items: z.array(z.object({ id: z.string() })) }).parse(body);
    const id = items[0]?.id ?? '';
    await up.reaches(id, { sandbox_status: 'ERROR' });
    await page.goto(`${up.url}/c/${id}`);
    await page.getByText('No events of this conversation are stored.').waitFor();
    await page.getByText('no agent takes messages here').waitFor();
    expect(await page.getByRole('link', { name: 'Download' }).count()).toBe(0);
    await expectReadable('a failed start without a history');
  });
});
