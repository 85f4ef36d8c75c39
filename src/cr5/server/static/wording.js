// Wording: numbers, lists and titles as the page says them.

const number = new Intl.NumberFormat("en");

export const whole = (count) => number.format(count);
export const percent = (share) => `${Math.round(share * 100)}\u00a0%`;
export const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
export const several = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;
export const listed = (items, type = "conjunction") => new Intl.ListFormat("en-GB", { type }).format(items);
export const titled = (paper) => paper.title?.trim() || paper.concept || paper.id;
