import { request as httpRequest, type IncomingMessage } from 'node:http';
import { once } from 'node:events';
import { text as textOf } from 'node:stream/consumers';

export interface Visit {
  readonly url: URL;
  readonly status: number;
  readonly text: string;
  readonly location: string | undefined;
}

/** A browser that follows redirects between hosts, with the cookies of each host. */
export class SignInBrowser {
  readonly jar = new Map<string, Map<string, string>>();

  /** The request of an address, without its redirects. */
  async visit(
    address: URL,
    {
      method = 'GET',
      form,
      json,
      headers = {},
    }: {
      readonly method?: string;
      readonly form?: Readonly<Record<string, string>>;
      /** Body as JSON, in place of a form. */
      readonly json?: string;
      readonly headers?: Readonly<Record<string, string>>;
    } = {},
  ): Promise<Visit> {
    const cookies = this.jar.get(address.host) ?? new Map<string, string>();
    this.jar.set(address.host, cookies);
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ');
    const body = form === undefined ? json : new URLSearchParams(form).toString();
    const request = httpRequest(address, {
      method,
      agent: false,
      headers: {
        ...(cookie === '' ? {} : { cookie }),
        ...(form === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
    });
    request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    for (const line of response.headers['set-cookie'] ?? []) {
      const [name = '', value = ''] = (line.split(';')[0] ?? '').split(/=(.*)/s);
      if (line.includes('Max-Age=0')) cookies.delete(name);
      else cookies.set(name, value);
    }
    return {
      url: address,
      status: response.statusCode ?? 0,
      text: await textOf(response),
      location: response.headers.location,
    };
  }

  /** Opens an address and follows its redirects, at most 10, until `isEnd` holds or a page comes. */
  async open(address: URL, isEnd: (url: URL) => boolean = () => false): Promise<Visit> {
    let at = address;
    for (let hops = 0; hops < 10; hops++) {
      const visit = await this.visit(at);
      if (visit.location === undefined) return visit;
      at = new URL(visit.location, at);
      if (isEnd(at)) return { ...visit, url: at };
    }
    throw new Error(`too many redirects, the last one to ${at.href}`);
  }
}
