"""A headless Chromium for pages from disk: no network, no window."""
import json
import sys

SKIP = 77


def open_browser(width=1440, height=900, dark=False, ratio=1):
    """The driver; exits with status 77 on a machine without Chromium or Selenium."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        print("skipped: python3-selenium is not installed")
        sys.exit(SKIP)
    import shutil
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        print("skipped: chromium or chromium-driver is not installed")
        sys.exit(SKIP)
    options = Options()
    options.binary_location = chromium
    for argument in ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--disable-dev-shm-usage", f"--window-size={width},{height}",
                     f"--force-device-scale-factor={ratio}",
                     "--proxy-server=127.0.0.1:9"]:  # whatever is not on disk fails
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service(driver), options=options)
    emulate(browser, width, height, dark, ratio)
    return browser


def emulate(browser, width, height, dark, ratio=1):
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": ratio, "mobile": False})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})


def console_errors(browser):
    return [entry["message"] for entry in browser.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")]


def frame(browser):
    """Waits until two more frames have been drawn."""
    browser.execute_async_script(
        "const done = arguments[0];"
        "requestAnimationFrame(() => requestAnimationFrame(() => done()));")


def shoot(browser, path):
    frame(browser)
    browser.save_screenshot(str(path))


def show(value):
    return json.dumps(value)
