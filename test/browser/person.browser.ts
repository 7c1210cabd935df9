import type { Locator } from 'playwright-core';
import { GitServer } from '../support/git-server.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { violationsIn } from './support/accessibility.ts';
import { Window } from './support/browser.ts';
import { steps } from './support/steps.ts';

let git: GitServer;
let up: Installation;
let window: Window;

beforeAll(async () => {
  git = await GitServer.start({
    repositories: { 'acme/app': { files: { 'README.md': 'An app\n' } } },
  });
  up = await Installation.start({ env: { GIT_HOSTS: JSON.stringify({ github: git.url }) } });
  const { code, stderr } = await kubectl(up.kubeconfig, [
    ...['patch', 'cq', 'default', '--type', 'merge', '-p'],
    '{"spec":{"limit":1,"onExceeded":"PauseOldest","minActiveSeconds":0,"autoResume":"Never"}}',
  ]);
  if (code !== 0) throw new Error(stderr);
  window = await Window.open({ firstPicture: 61 });
});
afterAll(async () => {
  await window.close();
  await up.stop();
  await git.stop();
});

const step = steps(() => window);
const heading = (name: string) => window.page.getByRole('heading', { name });
const row = (title: string) =>
  window.page.getByRole('listitem').filter({ has: window.page.getByRole('link', { name: title }) });

const maxTabs = 100;

/** Moves the focus to an element by Tab alone, as a person without a pointer does. */
async function reach(target: Locator, key = 'Tab'): Promise<void> {
  for (let tabs = 0; tabs < maxTabs; tabs++) {
    if ((await target.and(window.page.locator(':focus')).count()) > 0) return;
    await window.page.keyboard.press(key);
  }
  throw new Error(`${key} does not reach ${target.toString()}`);
}

/** Presses Enter on an element that Tab reaches. */
async function enter(target: Locator, key?: string): Promise<void> {
  await reach(target, key);
  await window.page.keyboard.press('Enter');
}

/** Expects that axe finds nothing in the page, light and dark. */
async function expectAccessible(): Promise<void> {
  for (const colorScheme of ['dark', 'light'] as const) {
    await window.page.emulateMedia({ colorScheme });
    expect(await violationsIn(window.page)).toEqual([]);
  }
}

describe('A person with a keyboard and a browser', () => {
  step('signs in with the link that the start has printed', async () => {
    const { page } = window;
    const link = /http:\S+\/login\?token=\S+/.exec(up.output)?.[0] ?? '';
    await page.goto(link);
    await expectAccessible();
    await enter(page.getByRole('button', { name: 'Sign in as local' }));
    await page.waitForURL(`${up.url}/`);
    await page.getByText('No conversations yet').or(heading('New conversation')).first().waitFor();
    await expectAccessible();
  });

  step('starts a conversation with a repository', async () => {
    const { page } = window;
    await page.getByRole('heading', { name: 'New conversation' }).waitFor();
    await page.keyboard.press('n');
    await page.locator('#message:focus').waitFor();
    await page.keyboard.type('Count apples:\n```sh\ncat README.md; sleep 2; echo 7 apples\n```');
    await reach(page.getByLabel('Repository', { exact: true }));
    await page.keyboard.type('acme/app');
    await page.keyboard.press('Control+Enter');
    if ((await page.getByText('Starting…').count()) === 0)
      await page.keyboard.press('Enter').catch(() => undefined);
    await row('Count apples').waitFor();
    await row('Count apples').getByText('acme/app').first().waitFor();
  });

  step('sees the stages of the start, and opens it with Enter', async () => {
    const { page } = window;
    await row('Count apples').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('body').press('j');
    await page.locator('.row-title:focus').waitFor();
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/c\/[0-9a-f]{32}$/);
    await heading('Count apples').waitFor();
  });

  step('reads what the agent did', async () => {
    const { page } = window;
    await page
      .getByRole('article')
      .filter({ hasText: '7 apples' })
      .or(page.getByText('7 apples'))
      .first()
      .waitFor();
    await page.getByText('Done').first().waitFor();
    const tool = page.locator('details.tool').first();
    await reach(tool.locator('summary'));
    // A call that ran while the page was open is open already.
    if ((await tool.getAttribute('open')) === null) await page.keyboard.press('Enter');
    await tool.getByText('An app').first().waitFor();
    await expectAccessible();
  });

  step('writes to the agent, and reads its answer', async () => {
    const { page } = window;
    await reach(page.getByLabel('Message'));
    await page.keyboard.type('Count pears:\n```sh\necho 8 pears\n```');
    await page.keyboard.press('Control+Enter');
    await page
      .locator('pre', { hasText: /^8 pears/ })
      .first()
      .waitFor({ state: 'attached' });
    expect(await page.getByLabel('Message').inputValue()).toBe('');
  });

  step('sees which conversation a second start would pause', async () => {
    const { page } = window;
    await enter(page.getByRole('link', { name: 'Conversations' }));
    await page.getByText('Pauses “Count apples').first().waitFor();
    await page.keyboard.press('n');
    await page.locator('#message:focus').waitFor();
    await page.keyboard.type('Count plums:\n```sh\necho 9 plums\n```');
    await page.keyboard.press('Control+Enter');
    await row('Count plums').waitFor();
    const paused = page.getByRole('region', { name: 'Paused' });
    await paused.getByRole('link', { name: 'Count apples' }).waitFor();
    await expectAccessible();
  });

  step('resumes the one that was paused', async () => {
    const { page } = window;
    await enter(row('Count apples').getByRole('button', { name: /^Resume/ }));
    await row('Count plums').getByText('→ Paused').waitFor();
    // Nothing moves while the focus is in the list.
    await enter(page.getByRole('button', { name: 'Show the new order' }), 'Shift+Tab');
    const paused = page.getByRole('region', { name: 'Paused' });
    await paused.getByRole('link', { name: 'Count plums' }).waitFor();
    await enter(page.getByRole('link', { name: 'Count apples' }));
    await page.getByText('8 pears').first().waitFor({ state: 'attached' });
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.setViewportSize({ width: 360, height: 800 });
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    expect(await violationsIn(page)).toEqual([]);
  });

  step('signs out, and is sent to the sign-in by every page', async () => {
    const { page } = window;
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 1280, height: 800 });
    const address = page.url();
    await enter(page.getByRole('button', { name: 'Sign out' }));
    await page.waitForURL(/\/login$/);
    await page.goto(address);
    await page.waitForURL(/\/login\?return_to=/);
    expect(await violationsIn(page)).toEqual([]);
  });

  step('signs in with an API key, and is where it was', async () => {
    const { page } = window;
    await page.locator('input:focus').waitFor();
    await page.keyboard.type(up.key);
    await page.keyboard.press('Enter');
    await page.waitForURL(/\/c\/[0-9a-f]{32}$/);
    await heading('Count apples').waitFor();
  });
});
