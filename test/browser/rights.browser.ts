import type { AccountRecord, ApiKeyRecord, SettingsRecord } from '../../src/web/wire.ts';
import { aKey } from '../support/page-overview.ts';
import { anAccount, aQuota, aSandbox, everyKind, idOf } from '../support/page-records.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(191);

const ok = (json: unknown) => ({ status: 200, json });
const settings: SettingsRecord = {
  llm_api_key_set: true,
  llm_model: 'openai/small',
  own_llm_model: 'openai/small',
  default_llm_model: 'openai/default',
  provider_tokens_set: { github: null },
  mcp_config: { docs: { transport: 'http', url: 'https://mcp.example.com/mcp', headers: null } },
  git_user_name: 'Alice',
  git_user_email: 'alice@example.com',
  git_co_author: true,
};
const answerKeys = (...keys: readonly ApiKeyRecord[]) =>
  service.answers.set('GET /api/keys', ok(keys));
const answerAccount = (scopes: AccountRecord['scopes'], role: AccountRecord['role'] = 'user') =>
  service.answers.set('GET /api/v1/users/me', ok(anAccount({ scopes, role })));
const command = 'rm -rf build\n'.repeat(3);

beforeEach(() => {
  const { conversations, sandboxes, start_tasks } = everyKind();
  service.snapshots = [
    {
      conversations: conversations.map((one) =>
        one.id === idOf(1)
          ? {
              ...one,
              pending_approval: {
                id: 'q1',
                conversation_id: idOf(1),
                title: 'rm -rf build',
                kind: 'execute',
                tool: 'terminal',
                summary: command,
                complete: true,
                options: [
                  { id: 'yes', name: 'Allow', kind: 'allow_once' },
                  { id: 'no', name: 'Reject', kind: 'reject_once' },
                ],
                sandbox_status: 'RUNNING',
                decided_by: 'Owner',
                requested_at: one.updated_at,
                notice: null,
              },
            }
          : one,
      ),
      sandboxes: [...sandboxes, aSandbox(77)],
      start_tasks,
      quota: aQuota(),
      last: true,
    },
  ];
  service.calls.length = 0;
  service.answers.clear();
  service.answers.set('GET /api/v1/settings', ok(settings));
  service.answers.set(
    'GET /api/v1/secrets/search',
    ok({ items: [{ name: 'NPM_TOKEN', description: 'Publishes' }], next_page_id: null }),
  );
  service.answers.set('GET /api/keys/current', ok({ id: 'key-own' }));
  answerKeys(aKey('key-own', { name: 'Laptop', scopes: ['read'] }));
  service.answers.set(
    'GET /api/v1/app-conversations/' + idOf(2) + '/git/changes',
    ok([{ status: 'UPDATED', path: 'README.md' }]),
  );
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
  expect(service.calls).toEqual([]);
});

/** Names of all controls that are in the page and enabled, without those of the header. */
const controls = async (): Promise<readonly string[]> => {
  const names = await window.page.evaluate<readonly string[]>(
    `Array.from(
      document.querySelectorAll(':is(button, textarea, input, select):enabled:not(header *, dialog *)'),
      (element) => element.ariaLabel ?? element.textContent,
    )`,
  );
  return [...new Set(names)];
};
const open = async (path: string) => {
  await window.page.goto(`${service.url}${path}`);
  await window.page.locator('main :is(h1, h2)').first().waitFor();
};
const filters = [
  'Search conversations',
  'Filter by group',
  'Filter by repository',
  'Filter by template',
];
const tabs = ['Events', 'Changes', 'Files', 'Life'];

describe('a person who may read only', () => {
  beforeEach(() => answerAccount(['read']));

  it.each([
    ['wide', 1280],
    ['on a phone', 360],
  ])('gets a list without anything that would be refused, %s', async (name, width) => {
    const { page } = window;
    await page.setViewportSize({ width, height: 800 });
    await open('/');
    await page.getByText('You may read only.').first().waitFor();
    await page.getByRole('link', { name: 'Fix the login' }).waitFor();
    await page.getByText('Sandboxes without a conversation').waitFor();
    expect(await controls()).toEqual(filters);
    expect(await page.getByRole('button', { name: 'New' }).count()).toBe(0);
    await window.picture(`read only, list ${name}`);
    expect(await violationsIn(page)).toEqual([]);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('does nothing by keys, and lists no key that would', async () => {
    const { page } = window;
    await open('/');
    await page.getByText('You may read only.').first().waitFor();
    for (const key of ['j', 'x', 'J', 'a', 'p', 'd', 'n']) await page.keyboard.press(key);
    expect(await page.getByRole('region', { name: 'Selected conversations' }).count()).toBe(0);
    await page.keyboard.press('?');
    const help = page.getByRole('dialog', { name: 'Keys' });
    await help.getByText('Next and previous conversation').waitFor();
    expect(await help.locator('dd').allTextContents()).toEqual([
      'Search',
      'Next and previous conversation',
      'Open the conversation',
      'This help',
    ]);
    await page.keyboard.press('Escape');
  });

  it('reads a question whole, and can not answer it', async () => {
    const { page } = window;
    await open(`/c/${idOf(1)}`);
    await page.getByText('You may read only. Somebody else has to answer.').waitFor();
    expect(await page.getByLabel('What the agent wants to do').textContent()).toBe(command);
    expect(await controls()).toEqual(tabs);
    await window.picture('read only, question');
    expect(await violationsIn(page)).toEqual([]);
  });

  it('has no form for messages and none for pull requests', async () => {
    const { page } = window;
    await open(`/c/${idOf(2)}?view=changes`);
    await page.getByText('README.md').waitFor();
    expect(await controls()).toEqual([...tabs, 'Side by side', 'Read again']);
    await page.getByText('You may read only.').waitFor();
  });

  it('reads the settings, and changes none', async () => {
    const { page } = window;
    await open('/account');
    await page.getByText('NPM_TOKEN').waitFor();
    await page.getByText('Laptop').waitFor();
    expect(await controls()).toEqual([]);
    expect(await page.getByLabel('Email').inputValue()).toBe('alice@example.com');
    await window.picture('read only, settings', { fullPage: true });
    expect(await violationsIn(page)).toEqual([]);
  });
});

describe('a session with a part of the scopes', () => {
  it('changes what runs where it may not start anything', async () => {
    const { page } = window;
    answerAccount(['read', 'manage']);
    await open('/');
    await page.getByText('You may not start conversations or write to agents.').waitFor();
    await page.getByRole('button', { name: 'Pause: Fix the login' }).waitFor();
    await page.getByRole('button', { name: 'More for Fix the login' }).click();
    expect(await page.locator('.menu-items button').allTextContents()).not.toContain(
      'Start another like it…',
    );
    expect(await page.getByRole('button', { name: /^Start again/ }).count()).toBe(0);
    await page.getByLabel('Select Port the exporter').check();
    const bar = page.getByRole('region', { name: 'Selected conversations' });
    await bar.getByRole('button', { name: 'Delete' }).waitFor();
    expect(await bar.getByRole('button', { name: 'Retry' }).count()).toBe(0);
  });

  it('starts and writes where it may change nothing', async () => {
    const { page } = window;
    answerAccount(['read', 'start']);
    await open('/');
    await page.getByRole('button', { name: 'Start', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Start again: Port the exporter' }).waitFor();
    expect(await page.getByRole('button', { name: /^(Pause|Resume)/ }).count()).toBe(0);
    await open(`/c/${idOf(1)}`);
    await page.getByLabel('Message').waitFor();
    await page.getByText('Somebody else has to answer.').waitFor();
    expect(await page.getByRole('button', { name: 'Allow' }).count()).toBe(0);
    await open('/account');
    await page.getByText('You may not change secrets.').waitFor();
  });

  it('says that its key reads nothing, in place of a page that never fills', async () => {
    service.streamStatus = 403;
    answerAccount(['start']);
    await open('/');
    await window.page.getByRole('heading', { name: 'Your key opens nothing to read.' }).waitFor();
    service.streamStatus = undefined;
    window.faults();
  });
});

describe('an account that is not known yet', () => {
  it('shows nothing that acts as possible, and asks again after a failure', async () => {
    const { page } = window;
    let fails = true;
    service.answers.set('GET /api/v1/users/me', () =>
      fails ? { status: 503, json: {} } : ok(anAccount()),
    );
    await open('/');
    await page.getByRole('link', { name: 'Fix the login' }).waitFor();
    expect(await page.getByRole('button', { name: 'Start', exact: true }).isDisabled()).toBe(true);
    expect(await page.getByRole('button', { name: /^(Pause|More)/ }).count()).toBe(0);
    fails = false;
    await page.getByRole('button', { name: 'Pause: Fix the login' }).waitFor();
    expect(await page.getByRole('button', { name: 'Start', exact: true }).isEnabled()).toBe(true);
    window.faults();
  });

  it('loses its controls where the next session has fewer rights', async () => {
    const { page } = window;
    answerAccount(['read', 'start', 'manage']);
    await open('/');
    await page.getByRole('button', { name: 'Pause: Fix the login' }).waitFor();
    answerAccount(['read']);
    service.breakStreams();
    await page.getByText('You may read only.').first().waitFor();
    expect(await page.getByRole('button', { name: /^(Pause|More)/ }).count()).toBe(0);
    window.faults();
  });
});
