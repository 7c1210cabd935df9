import { Installation } from '../support/installation.ts';
import { Window } from './support/browser.ts';

let up: Installation;
let window: Window;
beforeAll(async () => {
  up = await Installation.start();
  window = await Window.open({ firstPicture: 31 });
}, 60_000);
afterAll(async () => {
  await window.close();
  await up.stop();
}, 30_000);
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

describe('/docs', () => {
  it('shows what there is to call, and one call with all of its parts', async () => {
    const { page } = window;
    await page.goto(`${up.url}/docs`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await window.picture('docs');
    await page.locator('#searchConversations > summary').click();
    await page.locator('#searchConversations').getByText('title__contains').waitFor();
    await page.locator('#searchConversations').getByText('200').first().click();
    await window.picture('docs of one call');
    expect(await page.title()).toMatch(/\d+\.\d+\.\d+$/);
  });

  it('leads to the schemas, and to the document itself', async () => {
    const { page } = window;
    await page.goto(`${up.url}/docs`);
    await page.getByRole('link', { name: 'openapi.json' }).click();
    await page.waitForURL(/openapi\.json$/);
  });
});

describe('/conversations/{id}', () => {
  it('shows a conversation to each user with a key for it', async () => {
    const { page } = window;
    const { id: task } = await up.start('Say hello:\n```sh\necho hello\n```');
    const { app_conversation_id: id } = await up.over(task);
    await up.reaches(id ?? '', { execution_status: 'finished' });
    await page.goto(`${up.url}/conversations/${id ?? ''}`);
    await window.picture('a conversation before the key');
    await page.getByLabel('API key').fill(up.key);
    await page.getByRole('button', { name: 'Show' }).click();
    await page.getByRole('heading', { name: 'Say hello:' }).waitFor();
    await page.getByText('finished').waitFor();
    await window.picture('a conversation');
    expect(await page.getByLabel('API key').inputValue()).toBe('');
  });
});
