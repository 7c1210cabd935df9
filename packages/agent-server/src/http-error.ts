/** A response other than success. Clients receive `detail` unchanged. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;
  readonly detail: unknown;

  constructor(status: number, detail: unknown) {
    super(typeof detail === 'string' ? detail : `status ${status}`);
    this.status = status;
    this.detail = detail;
  }
}
