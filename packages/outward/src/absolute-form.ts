import type { Dispatcher } from 'undici';
import { authorizationOf } from './connectors.ts';
import type { ProxyServer } from './proxies.ts';
import { refusalOf } from './proxy-error.ts';

type Headers = Dispatcher.DispatchOptions['headers'];

/**
 * Sends the requests of an http origin to the proxy, with the whole URL in their first line
 * (RFC 9112, 3.2.2): proxies commonly permit tunnels to the port of https alone.
 */
export const absoluteForm =
  (origin: URL, proxy: ProxyServer): Dispatcher.DispatcherComposeInterceptor =>
  (dispatch) =>
  (options, handler) =>
    dispatch(
      {
        ...options,
        origin: proxy.origin,
        path: `${origin.origin}${options.path}`,
        headers: {
          ...fieldsOf(options.headers),
          host: origin.host,
          ...authorizationOf(proxy),
        },
      },
      refusing(handler),
    );

/** The fields of all forms of headers that undici accepts; names are in lower case. */
function fieldsOf(headers: Headers): Readonly<Record<string, string | string[]>> {
  const fields: Record<string, string | string[]> = {};
  const add = (name: string, value: unknown): void => {
    if (value === undefined) return;
    const key = name.toLowerCase();
    const [first = '', ...more] = [fields[key] ?? [], value].flat(2).map(String);
    fields[key] = more.length === 0 ? first : [first, ...more];
  };
  if (Array.isArray(headers))
    for (let at = 0; at < headers.length; at += 2) add(String(headers[at]), headers[at + 1]);
  else if (headers !== null && headers !== undefined)
    for (const [name, value] of Symbol.iterator in headers ? headers : Object.entries(headers))
      add(name, value);
  return fields;
}

/** Makes an error of 407, which is the proxy's: hosts do not answer it. */
const refusing = (handler: Dispatcher.DispatchHandler): Dispatcher.DispatchHandler => ({
  onRequestStart: (...given) => handler.onRequestStart?.(...given),
  onRequestUpgrade: (...given) => handler.onRequestUpgrade?.(...given),
  onResponseStart: (controller, status, headers, text) => {
    if (status === 407) controller.abort(refusalOf(status));
    else handler.onResponseStart?.(controller, status, headers, text);
  },
  onResponseData: (...given) => handler.onResponseData?.(...given),
  onResponseEnd: (...given) => handler.onResponseEnd?.(...given),
  onResponseError: (...given) => handler.onResponseError?.(...given),
});
