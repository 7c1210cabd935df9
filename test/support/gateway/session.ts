/** The cookie of a session, which an API key has opened. */
export async function sessionCookie(url: string, key: string): Promise<string> {
  const { headers } = await fetch(`${url}/login`, {
    method: 'POST',
    body: new URLSearchParams({ api_key: key }),
    headers: { origin: url, 'sec-fetch-site': 'same-origin' },
    redirect: 'manual',
  });
  return headers.getSetCookie()[0]?.split(';')[0] ?? '';
}
