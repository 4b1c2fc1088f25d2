// Browsers start no worker of a page that is opened as a file. This stands in for it there: the worker's script runs in a
// hidden frame of the page, and messages go to and fro as events.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<!doctype html>"
      const loaded = new Promise(resolve => frame.addEventListener("load", resolve, { once: true }))
      this.inside = loaded.then(() => this.#begin(frame.contentWindow, new URL(url, location)))
      document.body.append(frame)
    }

    async #begin(inside, url) {
      const load = source =>
        new Promise((resolve, reject) => {
          const script = inside.document.createElement("script")
          Object.assign(script, { src: source, onload: resolve, onerror: reject })
          inside.document.body.append(script)
        })
      inside.importScripts = async (...sources) => {
        for (const source of sources) await load(source)
      }
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      await load(url)
      return inside
    }

    postMessage(data) {
      this.inside.then(inside => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }

    terminate() {}
  }
