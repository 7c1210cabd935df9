import { aConversation, aQuota, aSandbox, idOf } from '../support/page-records.ts';
import { violationsIn } from './support/accessibility.ts';
import { openPages } from './support/pages.ts';

const { service, window } = await openPages(141);
const id = idOf(1);
/** Maximum characters of an image that the service takes. */
const maxUrlCharacters = 262_144;

beforeEach(() => {
  service.calls.length = 0;
  service.answers.clear();
  service.snapshots = [
    {
      conversations: [aConversation(1, { title: 'Fix the login' })],
      sandboxes: [aSandbox(1, { status: 'RUNNING' })],
      start_tasks: [],
      quota: aQuota(),
      last: true,
    },
  ];
});
afterEach(() => {
  expect(window.faults()).toEqual([]);
  expect([...window.outside]).toEqual([]);
});

/**
 * Gives the form files as a person does who chooses them: photos as large as those of phones, each
 * of noise, which compresses worst of all. Returns the bytes of the largest.
 */
const choose = (names: readonly string[], width = 4_000, height = 3_000): Promise<number> =>
  window.page.evaluate<number>(`(async () => {
    const canvas = new OffscreenCanvas(${width}, ${height});
    const context = canvas.getContext('2d');
    const pixels = new ImageData(${width}, ${height});
    const words = new Uint32Array(pixels.data.buffer);
    let seed = 1;
    for (let at = 0; at < words.length; at++)
      words[at] = (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) | 0xff000000;
    context.putImageData(pixels, 0, 0);
    const photo = await canvas.convertToBlob({ type: 'image/jpeg', quality: 1 });
    const files = new DataTransfer();
    for (const name of ${JSON.stringify(names)})
      files.items.add(new File([photo], name, { type: 'image/jpeg' }));
    const input = document.querySelector('input[type=file]');
    input.files = files.files;
    input.dispatchEvent(new Event('change', { bubbles: true }));
    return photo.size;
  })()`);

interface Sent {
  readonly content: readonly { readonly image_urls?: readonly string[] }[];
}
const urlsIn = ({ content }: Sent): readonly string[] =>
  content.flatMap(({ image_urls: urls = [] }) => urls);
const press = async (name: string) => {
  const posted = window.page.waitForResponse((response) => response.request().method() === 'POST');
  await window.page.getByRole('button', { name, exact: true }).click();
  await posted;
};
const longestSideOf = (url: string): Promise<number> =>
  window.page.evaluate<number>(`(async () => {
    const image = new Image();
    image.src = ${JSON.stringify(url)};
    await image.decode();
    return Math.max(image.naturalWidth, image.naturalHeight);
  })()`);

it('scales the photos of a phone down to what the service takes', async () => {
  const { page } = window;
  await page.goto(service.url);
  await page.getByRole('textbox', { name: 'Message' }).fill('What is on them?');
  expect(await choose(['one.jpg', 'two.jpg', 'three.jpg', 'four.jpg'])).toBeGreaterThan(5_000_000);
  await page.getByRole('img', { name: 'four.jpg' }).waitFor();
  await page.getByText('Scaled down to fit.').waitFor();
  await window.picture('images of a start');
  expect(await violationsIn(page)).toEqual([]);
  await press('Start');
  const { initial_message: message } = service.calls[0]?.body as { initial_message: Sent };
  const urls = urlsIn(message);
  expect(urls).toHaveLength(4);
  for (const url of urls) {
    expect(url.length).toBeLessThanOrEqual(maxUrlCharacters);
    expect(await longestSideOf(url)).toBeLessThanOrEqual(1_568);
    expect(await longestSideOf(url)).toBeGreaterThan(300);
  }
  expect(JSON.stringify(service.calls[0]?.body).length).toBeLessThan(1024 * 1024);
});

it('sends a small image as it is', async () => {
  const { page } = window;
  await page.goto(service.url);
  const bytes = await choose(['small.jpg'], 64, 64);
  await page.getByRole('img', { name: 'small.jpg' }).waitFor();
  expect(await page.getByText('Scaled down to fit.').count()).toBe(0);
  await press('Start');
  const { initial_message: message } = service.calls[0]?.body as { initial_message: Sent };
  const [url = ''] = urlsIn(message);
  expect(Buffer.from(url.split(',')[1] ?? '', 'base64')).toHaveLength(bytes);
});

it('waits for an image that is still read, and starts nothing without one that can not be', async () => {
  const { page } = window;
  await page.goto(service.url);
  await page.getByRole('textbox', { name: 'Message' }).fill('What is on it?');
  await page.evaluate(`(() => {
    const read = createImageBitmap;
    window.createImageBitmap = async (...file) => {
      await new Promise((resolve) => { window.proceed = resolve; });
      return read(...file);
    };
    const files = new DataTransfer();
    files.items.add(new File(['no image'], 'broken.heic', { type: 'image/heic' }));
    const input = document.querySelector('input[type=file]');
    input.files = files.files;
    input.dispatchEvent(new Event('change', { bubbles: true }));
  })()`);
  await page.getByText('Reading…').waitFor();
  await page.getByRole('button', { name: 'Start', exact: true }).click();
  await page.getByText('Starting…').waitFor();
  await page.evaluate('proceed()');
  await page.getByText('broken.heic can not be read as an image.').waitFor();
  await page.getByRole('button', { name: 'Start', exact: true }).waitFor();
  expect(service.calls).toEqual([]);
  await press('Start');
  expect(service.calls).toHaveLength(1);
});

it('says which image has no room', async () => {
  await window.page.goto(service.url);
  await choose(
    Array.from({ length: 21 }, (_, index) => `${index + 1}.jpg`),
    64,
    64,
  );
  await window.page.getByText('There is no room for 21.jpg: a message has 20 images').waitFor();
  expect(await window.page.getByRole('img', { name: '20.jpg' }).count()).toBe(1);
});

it('sends images to a conversation too, within what the service keeps', async () => {
  const { page } = window;
  await page.goto(`${service.url}/c/${id}`);
  await page.getByRole('textbox', { name: 'Message' }).waitFor();
  await choose(['one.jpg', 'two.jpg']);
  await page.getByRole('img', { name: 'two.jpg' }).waitFor();
  await page.setViewportSize({ width: 360, height: 800 });
  await page.getByRole('button', { name: 'Send' }).scrollIntoViewIfNeeded();
  await window.picture('images of a message 360');
  expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  await page.setViewportSize({ width: 1280, height: 800 });
  expect(await violationsIn(page)).toEqual([]);
  await press('Send');
  const [call] = service.calls;
  expect(call?.path).toBe(`/api/v1/app-conversations/${id}/send-message`);
  expect(urlsIn(call?.body as Sent)).toHaveLength(2);
  expect(JSON.stringify(call?.body).length).toBeLessThan(384 * 1024);
  await page.getByRole('img', { name: 'one.jpg' }).waitFor({ state: 'detached' });
});
