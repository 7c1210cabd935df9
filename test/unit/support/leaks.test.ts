import { leaksIn, withoutFields } from '../../support/leaks.ts';

const secret = 'a"secret/ö+key=';
const bytes = Buffer.from(secret);

describe('the search for secrets', () => {
  it.each([
    ['as it is', `x${secret}y`],
    ['in JSON', JSON.stringify({ text: secret })],
    ['in a URL', `https://x/?key=${encodeURIComponent(secret)}&y`],
    ['in hex', `x${bytes.toString('hex')}`],
    ['in base64', bytes.toString('base64')],
    ['in base64 for URLs', bytes.toString('base64url')],
  ])('finds one %s', (_how, text) => {
    expect(leaksIn(text, { one: secret, other: 'something else' })).toEqual(['one']);
  });

  it('finds none where there is none', () => {
    expect(leaksIn('nothing', { one: secret })).toEqual([]);
  });

  it('skips the fields that are for it, and no others', () => {
    const json = JSON.stringify({
      session_api_key: 'token',
      items: [{ session_api_key: 'token', title: 'a token' }],
    });
    expect(withoutFields(json, 'session_api_key')).toBe(
      '{"session_api_key":"","items":[{"session_api_key":"","title":"a token"}]}',
    );
  });
});
