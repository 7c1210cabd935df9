import { aQuota } from '../support/page-records.ts';
import { hostileText } from '../support/page-overview.ts';
import type { SecretRecord, SettingsRecord } from '../../src/web/wire.ts';
import { violationsIn } from './support/accessibility.ts';
import { type Answer } from './support/fake-service.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(101);

const ok = (json: unknown) => ({ status: 200, json });
const settings: SettingsRecord = {
  llm_api_key_set: true,
  llm_model: 'openai/small',
  own_llm_model: 'openai/small',
  default_llm_model: 'openai/default',
  provider_tokens_set: { github: null },
  mcp_config: {
    docs: {
      transport: 'http',
      url: 'https://mcp.example.com/mcp',
      headers: { Authorization: '**********' },
    },
    files: { transport: 'stdio', command: 'mcp-files', args: ['--root', '.'], env: null },
  },
  git_user_name: 'Alice',
  git_user_email: 'alice@example.com',
  git_co_author: true,
};
const answerSettings = (changes: Partial<SettingsRecord> = {}) =>
  service.answers.set('GET /api/v1/settings', ok({ ...settings, ...changes }));
const answerSecrets = (...items: readonly SecretRecord[]) =>
  service.answers.set('GET /api/v1/secrets/search', ok({ items, next_page_id: null }));

beforeEach(() => {
  service.snapshots = [
    { conversations: [], start_tasks: [], sandboxes: [], quota: aQuota(), last: true },
  ];
  service.calls.length = 0;
  service.answers.clear();
  answerSettings();
  answerSecrets(
    { name: 'NPM_TOKEN', description: 'Publishes packages' },
    { name: 'OTHER', description: hostileText },
  );
});
afterEach(() => {
  expect([...window.outside]).toEqual([]);
});

const section = (name: string) => window.page.getByRole('region', { name });
const open = async () => {
  await window.page.goto(`${service.url}/account`);
  await section('Secrets').waitFor();
};
const fill = (name: string, label: string, text: string) =>
  section(name).getByLabel(label, { exact: true }).fill(text);
const press = (name: string, button: string) =>
  section(name).getByRole('button', { name: button, exact: true }).click();

describe('the settings', () => {
  it.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 360],
  ] as const)('show in %s at %i pixels names and no values', async (colorScheme, width) => {
    const { page } = window;
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    await open();
    await section('Secrets').getByText('Publishes packages').waitFor();
    await section('Secrets').getByText(hostileText).waitFor();
    await section('MCP servers')
      .getByText('https://mcp.example.com/mcp with Authorization')
      .waitFor();
    expect(await section('Commits').getByLabel('Name', { exact: true }).inputValue()).toBe('Alice');
    await window.picture(`settings ${width} ${colorScheme}`, { fullPage: true });
    expect(await violationsIn(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await page.emulateMedia({ colorScheme: 'light' });
    await page.setViewportSize({ width: 1280, height: 800 });
    expect(window.faults()).toEqual([]);
  });

  it('are reached by a link on every page', async () => {
    await window.page.goto(service.url);
    await window.page.getByRole('banner').getByRole('link', { name: 'Settings' }).click();
    await section('Secrets').waitFor();
    expect(await window.page.title()).toBe('Settings');
  });

  it('say why they can not be read, and are read again', async () => {
    const { page } = window;
    service.answers.set('GET /api/v1/settings', {
      status: 503,
      json: { detail: 'Too much to do.' },
    });
    await page.goto(`${service.url}/account`);
    await page.getByText('Too much to do.').waitFor();
    answerSettings();
    await page.getByRole('button', { name: 'Try again' }).click();
    await section('Secrets').waitFor();
    expect(window.faults().every((fault) => fault.startsWith('GET 503'))).toBe(true);
  });
});

describe('a secret', () => {
  it('is stored once, and its value is nowhere on the page afterwards', async () => {
    const { page } = window;
    await open();
    await fill('Secrets', 'Name', 'NEW_KEY');
    await fill('Secrets', 'Value', 's3cret-value');
    await fill('Secrets', 'Description', 'For the test');
    expect(await section('Secrets').getByLabel('Value').getAttribute('type')).toBe('password');
    answerSecrets({ name: 'NEW_KEY', description: 'For the test' });
    await press('Secrets', 'Store');
    await section('Secrets').getByText('Saved.').waitFor();
    expect(service.calls).toMatchObject([
      {
        method: 'POST',
        path: '/api/v1/secrets',
        body: { name: 'NEW_KEY', value: 's3cret-value', description: 'For the test' },
      },
    ]);
    await section('Secrets').getByText('NEW_KEY').waitFor();
    expect(await page.content()).not.toContain('s3cret-value');
    expect(await section('Secrets').getByLabel('Value').inputValue()).toBe('');
  });

  it('that is there gets another value', async () => {
    await open();
    await fill('Secrets', 'Name', 'NPM_TOKEN');
    await fill('Secrets', 'Value', 'other');
    await press('Secrets', 'Replace the value');
    await section('Secrets').getByText('Saved.').waitFor();
    expect(service.calls).toMatchObject([
      {
        method: 'PUT',
        path: '/api/v1/secrets/NPM_TOKEN',
        body: { name: 'NPM_TOKEN', value: 'other' },
      },
    ]);
  });

  it('that the service refuses stays in the form, with the reason', async () => {
    await open();
    service.answers.set('POST /api/v1/secrets', {
      status: 422,
      json: { detail: 'The name must be that of a variable.' },
    });
    await fill('Secrets', 'Name', '1x');
    await fill('Secrets', 'Value', 'v');
    await press('Secrets', 'Store');
    await section('Secrets').getByText('The name must be that of a variable.').waitFor();
    expect(await section('Secrets').getByLabel('Name', { exact: true }).inputValue()).toBe('1x');
    expect(window.faults().every((fault) => fault.startsWith('POST 422'))).toBe(true);
  });

  it('is deleted after one question, and shown until the service has done it', async () => {
    await open();
    await press('Secrets', 'Delete NPM_TOKEN');
    await press('Secrets', 'Keep');
    expect(service.calls).toEqual([]);
    let answer: (answer: Answer) => void = () => undefined;
    service.answers.set(
      'DELETE /api/v1/secrets/NPM_TOKEN',
      new Promise((resolve) => (answer = resolve)),
    );
    await press('Secrets', 'Delete NPM_TOKEN');
    await press('Secrets', 'Delete');
    await section('Secrets').getByText('Deleting…').waitFor();
    answer(ok({ success: true }));
    await section('Secrets').getByText('NPM_TOKEN').waitFor({ state: 'detached' });
  });
});

describe('other settings', () => {
  const saved = (changes: Partial<SettingsRecord>) =>
    service.answers.set('POST /api/v1/settings', ok({ ...settings, ...changes }));

  it('change the author of commits', async () => {
    await open();
    saved({ git_user_name: 'A. Smith', git_co_author: false });
    await fill('Commits', 'Name', 'A. Smith');
    await section('Commits').getByLabel('Name the agent as co-author').uncheck();
    await press('Commits', 'Save');
    await section('Commits').getByText('Saved.').waitFor();
    expect(service.calls).toMatchObject([
      {
        body: {
          git_user_name: 'A. Smith',
          git_user_email: 'alice@example.com',
          git_co_author: false,
        },
      },
    ]);
  });

  it('add and delete a server', async () => {
    await open();
    saved({ mcp_config: {} });
    await fill('MCP servers', 'Name', 'search');
    await fill('MCP servers', 'URL', 'https://search.example.com/mcp');
    await fill('MCP servers', 'Authorization', 'Bearer t0ken');
    await press('MCP servers', 'Add');
    await section('MCP servers').getByText('There is no server.').waitFor();
    expect(service.calls).toMatchObject([
      {
        body: {
          mcp_config: {
            search: {
              url: 'https://search.example.com/mcp',
              headers: { Authorization: 'Bearer t0ken' },
            },
          },
        },
      },
    ]);
    expect(await window.page.content()).not.toContain('t0ken');
    await open();
    service.calls.length = 0;
    await press('MCP servers', 'Delete docs');
    await press('MCP servers', 'Delete');
    await section('MCP servers').getByText('There is no server.').waitFor();
    expect(service.calls).toMatchObject([{ body: { mcp_config: { docs: null } } }]);
  });

  it('store no model where none was typed, and show the default in the empty field', async () => {
    answerSettings({ llm_model: 'openai/default', own_llm_model: null });
    await open();
    const field = section('Model').getByLabel('Model');
    expect(await field.inputValue()).toBe('');
    expect(await field.getAttribute('placeholder')).toBe('The default, openai/default');
    saved({ llm_model: 'openai/default', own_llm_model: null });
    await press('Model', 'Save');
    await section('Model').getByText('Saved.').waitFor();
    expect(service.calls).toMatchObject([{ body: { llm_model: '' } }]);
    expect(await field.inputValue()).toBe('');
  });

  it('go back to the default model', async () => {
    await open();
    const field = section('Model').getByLabel('Model');
    expect(await field.inputValue()).toBe('openai/small');
    await window.picture('settings own model', { fullPage: true });
    saved({ llm_model: 'openai/default', own_llm_model: null });
    await press('Model', 'Use the default');
    await section('Model').getByText('Saved.').waitFor();
    expect(service.calls).toMatchObject([{ body: { llm_model: '' } }]);
    expect(await field.inputValue()).toBe('');
    expect(await section('Model').getByRole('button', { name: 'Use the default' }).count()).toBe(0);
  });
});
