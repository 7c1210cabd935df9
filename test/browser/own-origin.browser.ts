import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { Window } from './support/browser.ts';
import { complaints } from './support/exceptions.ts';
import { signInByLink } from './support/sign-in.ts';
import { steps } from './support/steps.ts';

let up: Installation;
let window: Window;
let id: string;

beforeAll(async () => {
  up = await Installation.start();
  window = await Window.open({ firstPicture: 81 });
});
afterAll(async () => {
  await window.close();
  await up.stop();
});

const step = steps(() => window);
const part = (name: string) => window.page.getByTestId(name);
const card = () => part('conversation-card');
const chat = () => part('chat-interface');
const connected = () =>
  part('backend-status-dot')
    .and(window.page.getByLabel('Connected', { exact: true }))
    .waitFor();
/** A picture of one pixel. */
const image = {
  name: 'apple.png',
  mimeType: 'image/png',
  buffer: Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
    'base64',
  ),
};

async function say(lines: readonly string[]): Promise<void> {
  await part('chat-input').click();
  for (const [index, line] of lines.entries()) {
    if (index > 0) await window.page.keyboard.press('Shift+Enter');
    await window.page.keyboard.type(line);
  }
  await part('submit-button').click();
}

const idOfPage = async (): Promise<string> => {
  await window.page.waitForURL(/\/conversations\/[0-9a-f]{32}\b/);
  return /\/conversations\/([0-9a-f]{32})/.exec(window.page.url())?.[1] ?? '';
};

describe("the official web UI, on the service's own origin", () => {
  step('opens from our page, for a person whom the link has signed in', async () => {
    const { page } = window;
    await signInByLink(window, up.output);
    await page.waitForURL(`${up.url}/`);
    const { id: task } = await up.start('Count apples:\n```sh\necho $((6*7)) apples\n```');
    id = (await up.over(task)).app_conversation_id ?? '';
    await page.goto(`${up.url}/c/${id}`);
    await page.getByText('Reference agent', { exact: true }).waitFor();
    expect(await up.conversation(id)).toMatchObject({
      agent_kind: 'openhands',
      agent_name: 'Reference agent',
    });
    await page.getByRole('link', { name: 'Open chat' }).click();
    await page.waitForURL(`${up.url}/conversations/${id}`);
  });

  step('is connected, and shows the conversation, with nothing entered', async () => {
    await connected();
    await card().getByText('Count apples').waitFor();
    await chat().getByText('All blocks succeeded.').waitFor();
    const socket = await eventually('an open WebSocket', () =>
      window.sockets.findLast(({ open }) => open),
    );
    expect(new URL(socket.url).pathname).toBe(`/sockets/events/${id}`);
    expect(await window.page.evaluate('JSON.stringify(localStorage)')).not.toContain(up.key);
  });

  step('leads back to our page of the conversation, and to our list', async () => {
    const { page } = window;
    const back = page.getByRole('link', { name: '← Conversations' });
    await window.picture('way back from the web UI');
    await back.click();
    await page.waitForURL(`${up.url}/c/${id}`);
    await page.getByRole('link', { name: 'Open chat' }).click();
    await connected();
    // The UI changes its page without loading it.
    await page.evaluate("history.pushState(null, '', '/conversations')");
    await back.click();
    await page.waitForURL(`${up.url}/`);
  });

  step('starts a conversation whose first message has an image', async () => {
    await window.page.goto(`${up.url}/conversations`);
    await connected();
    await part('upload-image-input').setInputFiles(image);
    await say(['Count pears on it:', '```sh', 'echo 8 pears', '```']);
    id = await idOfPage();
    await chat().getByText('All blocks succeeded.').waitFor();
    const { body } = await up.call(
      'GET',
      `/api/v1/conversation/${id}/events/search?kind=MessageEvent&source=user`,
    );
    expect(JSON.stringify(body)).toContain(
      `data:image/png;base64,${image.buffer.toString('base64')}`,
    );
    expect(await up.conversation(id)).toMatchObject({ trigger: 'gui' });
  });

  step('stops an agent that works', async () => {
    await say(['And slowly:', '```sh', 'echo begun; sleep 300', '```']);
    await part('stop-button').waitFor();
    await up.reaches(id, { execution_status: 'running' });
    await part('stop-button').click();
    await part('play-button').waitFor();
    await up.reaches(id, { execution_status: 'paused', sandbox_status: 'RUNNING' });
  });

  step('lets it continue', async () => {
    await part('play-button').click();
    await up.reaches(id, { execution_status: 'finished' });
    await chat().getByText('All blocks that were not interrupted succeeded.').waitFor();
  });

  step('renames and deletes a conversation', async () => {
    const { page } = window;
    const own = card().filter({ hasText: 'Count apples' });
    await own.hover();
    await own.getByTestId('ellipsis-button').click();
    await part('edit-button').click();
    const input = card().locator('input');
    await input.fill('Apples');
    await input.press('Enter');
    const renamed = card().filter({ hasText: 'Apples' });
    await renamed.waitFor();
    await renamed.hover();
    await renamed.getByTestId('ellipsis-button').click();
    await part('delete-button').click();
    await page.getByRole('button', { name: 'Confirm Delete' }).click();
    await renamed.waitFor({ state: 'detached' });
    expect((await up.call('GET', '/api/v1/app-conversations/count')).body).toBe(1);
  });

  step('stores a secret, replaces its value, and deletes the secret', async () => {
    const { page } = window;
    const field = (name: string, tag = 'input') => page.locator(`${tag}[name="${name}"]`);
    const names = async () => (await up.call('GET', '/api/v1/secrets/search')).body;
    await page.goto(`${up.url}/settings/secrets`);
    await part('add-secret-button').click();
    await field('secret-name').fill('SHOP_TOKEN');
    await field('secret-value', 'textarea').fill('s3cret-of-the-shop');
    await field('secret-description').fill('For the shop');
    await part('submit-button').click();
    await part('secret-item').getByText('SHOP_TOKEN').waitFor();
    expect(await names()).toMatchObject({
      items: [{ name: 'SHOP_TOKEN', description: 'For the shop' }],
    });
    await part('edit-secret-button').click();
    await field('secret-value', 'textarea').fill('another-secret');
    await part('submit-button').click();
    await part('secret-item').getByText('SHOP_TOKEN').waitFor();
    await window.picture('secrets in the web UI');
    expect(await page.content()).not.toContain('another-secret');
    await part('delete-secret-button').click();
    await part('confirm-button').click();
    await part('secrets-empty').waitFor();
    expect(await names()).toMatchObject({ items: [] });
  });

  step('sends a person who has signed out to the sign-in, and back', async () => {
    const { page } = window;
    const address = `${up.url}/conversations/${id}`;
    await page.goto(up.url);
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL(/\/login$/);
    await page.goto(address);
    await page.waitForURL(/\/login\?return_to=/);
    await page.getByLabel('API key').fill(up.key);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL(address);
    await connected();
  });

  it('has asked for nothing from elsewhere, and has shown no message that something is wrong', () => {
    expect([...window.outside]).toEqual([]);
    expect(complaints(window.announced)).toEqual([]);
  });
});
