export interface RawHeader {
  readonly name: string;
  /** The name in lower case. */
  readonly key: string;
  readonly value: string;
}

/** Reads a list of names and values in turn, as Node has the headers that have arrived. */
export function* headersIn(raw: readonly string[]): Generator<RawHeader, void, undefined> {
  for (let index = 0; index + 1 < raw.length; index += 2) {
    const [name = '', value = ''] = [raw[index], raw[index + 1]];
    yield { name, key: name.toLowerCase(), value };
  }
}
