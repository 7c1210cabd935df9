import type { TestGateway, RequestOptions } from './test-gateway.ts';

/** A browser with one jar of cookies, which says where each request comes from. */
export class CookieBrowser {
  readonly #gateway: TestGateway;
  cookie: string | undefined;

  constructor(gateway: TestGateway, cookie?: string) {
    this.#gateway = gateway;
    this.cookie = cookie;
  }

  get ownHeaders() {
    return { origin: this.#gateway.url, 'sec-fetch-site': 'same-origin' };
  }

  async send(method: string, path: string, { headers, ...options }: RequestOptions = {}) {
    const answer = await this.#gateway.send(method, path, {
      key: null,
      ...options,
      headers: { ...(this.cookie === undefined ? {} : { cookie: this.cookie }), ...headers },
    });
    for (const line of answer.headers['set-cookie'] ?? []) {
      const [pair = ''] = line.split(';');
      this.cookie = line.includes('Max-Age=0') ? undefined : pair;
    }
    return answer;
  }

  /** Types an address, or opens a link in a terminal. */
  open = (path: string, headers: RequestOptions['headers'] = { 'sec-fetch-site': 'none' }) =>
    this.send('GET', path, { headers });

  /** Opens a link that signs in, and presses the button of its page, if the page has one. */
  signInBy = async (link: string) => {
    const opened = await this.open(link);
    const { searchParams } = new URL(link, this.#gateway.url);
    return opened.text.includes('name="token"')
      ? this.submit('/login', Object.fromEntries(searchParams))
      : opened;
  };

  submit = (path: string, fields: Record<string, string>, headers = this.ownHeaders) =>
    this.send('POST', path, {
      rawBody: new URLSearchParams(fields).toString(),
      headers: { ...headers, 'content-type': 'application/x-www-form-urlencoded' },
    });

  fetch = (method: string, path: string, body?: unknown, headers: object = this.ownHeaders) =>
    this.send(method, path, { body, headers: { ...headers } });

  owner = async () => {
    const { status, json } = await this.fetch('GET', '/api/v1/users/me');
    return status === 200 ? (json as { id: string }).id : status;
  };
}
