// Shows the server's HTML by key, in the order of the keys' numbers.

const BUDGET = 12; // milliseconds of work at a time

const compare = (one, other) => {
  for (let index = 0; ; index += 1) {
    if (index === one.length || index === other.length) return one.length - other.length;
    if (one[index] !== other[index]) return one[index] - other[index];
  }
};

export class Blocks {
  #regions = new Map();
  #shown = new Map();
  #queue = [];
  #stale = null;
  #working = false;

  constructor(root, handlers) {
    this.handlers = handlers;
    for (const element of root.querySelectorAll('[data-region]')) {
      this.#regions.set(element.dataset.region, { element, order: element.dataset.order === 'desc' ? -1 : 1, list: [] });
    }
  }

  // Removes everything at once.
  clear() {
    this.#queue = [];
    this.#stale = null;
    for (const key of [...this.#shown.keys()]) this.#remove(key);
  }

  event(name, value) {
    this.#queue.push([name, value]);
    if (!this.#working) {
      this.#working = true;
      // Once for all events that have arrived together: each slice costs a layout.
      setTimeout(() => this.#work());
    }
  }

  // Works in slices, so that the page answers to input meanwhile.
  #work() {
    const begin = performance.now();
    const changed = new Set();
    this.handlers.before();
    while (this.#queue.length > 0 && performance.now() - begin < BUDGET) {
      const [name, value] = this.#queue.shift();
      if (name === 'reset') {
        this.#stale = new Set(this.#shown.keys());
      } else if (name === 'synced') {
        for (const key of this.#stale ?? []) this.#remove(key);
        this.#stale = null;
        changed.add('synced');
      } else if (name === 'change') {
        this.#stale?.delete(value.key);
        if (value.html === null) this.#remove(value.key);
        else this.#put(value.key, value.html);
        changed.add(value.key.split('.', 1)[0]);
      }
    }
    this.handlers.after(changed);
    if (this.#queue.length > 0) {
      setTimeout(() => this.#work());
    } else {
      this.#working = false;
    }
  }

  #put(key, html) {
    const shown = this.#shown.get(key);
    if (shown) {
      this.#replace(shown.element, html);
      return;
    }
    const [name, ...numbers] = key.split('.');
    const region = this.#regions.get(name);
    if (!region) return;
    const element = document.createElement('div');
    element.className = 'block';
    element.dataset.key = key;
    this.#fill(element, html);
    const entry = { key, numbers: numbers.map(Number), element, region };
    let at = region.list.length;
    while (at > 0 && compare(region.list[at - 1].numbers, entry.numbers) > 0) at -= 1;
    region.list.splice(at, 0, entry);
    const after = region.list[at + region.order]?.element;
    if (region.order === 1) region.element.insertBefore(element, after ?? null);
    else region.element.insertBefore(element, after ?? null);
    this.#shown.set(key, entry);
    this.handlers.added(name, element);
  }

  #remove(key) {
    const entry = this.#shown.get(key);
    if (!entry) return;
    this.#shown.delete(key);
    entry.region.list.splice(entry.region.list.indexOf(entry), 1);
    entry.element.remove();
  }

  // Keeps what the user has folded or unfolded.
  #replace(element, html) {
    const before = [...element.querySelectorAll('details')];
    const touched = before.map((details) => (details.open === details.defaultOpen ? null : details.open));
    this.#fill(element, html);
    element.querySelectorAll('details').forEach((details, index) => {
      if (touched[index] !== null && touched[index] !== undefined) details.open = touched[index];
    });
  }

  #fill(element, html) {
    element.innerHTML = html;
    for (const details of element.querySelectorAll('details')) details.defaultOpen = details.open;
    for (const time of element.querySelectorAll('time[data-ms]')) {
      const date = new Date(Number(time.dataset.ms));
      const today = date.toDateString() === new Date().toDateString();
      time.dateTime = date.toISOString();
      time.title = date.toLocaleString();
      time.textContent = today
        ? date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })
        : date.toLocaleDateString([], { month: 'short', day: 'numeric' });
    }
    for (const image of element.querySelectorAll('img')) {
      image.addEventListener('error', () => image.classList.add('missing'), { once: true });
    }
  }
}
