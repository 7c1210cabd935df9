import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium, type Browser, type Page } from 'playwright-core';
import { unexpected, type Fault } from './exceptions.ts';

const pictures = fileURLToPath(new URL('../../../artifacts/ui/', import.meta.url));

/** Logs what the page announces to screen readers, such as errors that disappear after seconds. */
const announce = `new MutationObserver((changes) => {
  for (const { addedNodes } of changes)
    for (const node of addedNodes)
      if (node.nodeType === 1)
        for (const said of [node, ...node.querySelectorAll('*')])
          if (['status', 'alert'].includes(said.getAttribute('role')) && said.innerText.trim() !== '') console.info('announced: ' + said.innerText.trim());
}).observe(document, { childList: true, subtree: true });`;

/**
 * A browser that can reach this machine and nothing else. Not by `page.route`, which answers
 * preflights itself. Sandboxes have addresses of their own in 127.0.0.0/8, or names below
 * `localhost`.
 */
export const launchBrowser = (
  rules: readonly string[] = [],
  trustedKey?: string,
): Promise<Browser> => {
  const all = [...rules, 'MAP * ~NOTFOUND', 'EXCLUDE 127.*', 'EXCLUDE *.localhost'];
  return chromium.launch({
    executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
    args: [
      `--host-resolver-rules=${all.join(' , ')}`,
      ...(trustedKey === undefined ? [] : [`--ignore-certificate-errors-spki-list=${trustedKey}`]),
    ],
  });
};

export interface Socket {
  readonly url: string;
  readonly sent: string[];
  readonly received: string[];
  open: boolean;
}

export interface WindowOptions {
  readonly firstPicture?: number;
  /** Further rules of Chromium about the addresses of hosts. */
  readonly rules?: readonly string[];
  /** SHA-256 of the public key of servers whose certificates count, in Base64. */
  readonly trustedKey?: string;
}

/** A page in its own browser, which reaches only this machine, and what went wrong in it. */
export class Window {
  readonly page: Page;
  readonly sockets: Socket[] = [];
  readonly announced: string[] = [];
  /** Addresses outside of this machine that the page has asked for. */
  readonly outside = new Set<string>();
  readonly #browser: Browser;
  readonly #faults: Fault[] = [];
  #pictures: number;

  private constructor(browser: Browser, page: Page, firstPicture: number) {
    this.#browser = browser;
    this.page = page;
    this.#pictures = firstPicture;
  }

  static async open({
    firstPicture = 1,
    rules = [],
    trustedKey,
  }: WindowOptions = {}): Promise<Window> {
    const browser = await launchBrowser(rules, trustedKey);
    const context = await browser.newContext({
      viewport: { width: 1280, height: 800 },
      locale: 'en-US',
    });
    context.setDefaultTimeout(60_000);
    await context.addInitScript(announce);
    const page = await context.newPage();
    const window = new Window(browser, page, firstPicture);
    window.#watch();
    return window;
  }

  close(): Promise<void> {
    return this.#browser.close();
  }

  /** A screenshot of the page, as `artifacts/ui/NN-name.png`. */
  async picture(name: string, options: { readonly fullPage?: boolean } = {}): Promise<void> {
    const number = String(this.#pictures++).padStart(2, '0');
    mkdirSync(pictures, { recursive: true });
    await this.page.screenshot({
      path: join(pictures, `${number}-${name.replaceAll(/\W+/g, '-')}.png`),
      ...options,
    });
  }

  /** Errors since the last call that no list of exceptions contains. */
  faults(): readonly string[] {
    return unexpected(this.#faults.splice(0)).map(({ what, url }) => `${what} ${url}`);
  }

  #watch(): void {
    const { page } = this;
    page.on('console', (message) => {
      const text = message.text();
      if (text.startsWith('announced: ')) this.announced.push(text.slice('announced: '.length));
      // Failed requests are recorded below.
      else if (message.type() === 'error' && !text.startsWith('Failed to load resource:'))
        this.#faults.push({ what: `console: ${text}`, url: message.location().url });
    });
    page.on('pageerror', (error) =>
      this.#faults.push({ what: `thrown: ${error.message}`, url: page.url() }),
    );
    page.on('request', (request) => {
      const { hostname, protocol } = new URL(request.url());
      if (protocol.startsWith('http') && !/^127(\.\d+){3}$/.test(hostname))
        this.outside.add(hostname);
    });
    page.on('requestfailed', (request) =>
      this.#faults.push({
        what: `${request.method()} ${request.failure()?.errorText ?? 'failed'}`,
        url: request.url(),
      }),
    );
    page.on('response', (response) => {
      if (response.status() >= 400)
        this.#faults.push({
          what: `${response.request().method()} ${response.status()}`,
          url: response.url(),
        });
    });
    page.on('websocket', (webSocket) => {
      const socket: Socket = { url: webSocket.url(), sent: [], received: [], open: true };
      this.sockets.push(socket);
      webSocket.on('framesent', ({ payload }) => socket.sent.push(String(payload)));
      webSocket.on('framereceived', ({ payload }) => socket.received.push(String(payload)));
      webSocket.on('close', () => (socket.open = false));
    });
  }
}
